/* A libcuda without a GPU: one pretended H100 (sm_90), for tests.
 *
 * Its memory is the host's; streams do at once what they are told. Each module is written as PTX
 * into the folder CUDA_EMULATION_DIR, with a log of launches, copies and of what streams wait for.
 * At a module's first launch ptx_to_c.py (CUDA_EMULATION_PTX_TO_C) makes C of it, gcc compiles
 * that, and it runs a thread after the other; without that variable nothing runs. Environment, too:
 * CUDA_EMULATION_PYTHON, and CUDA_EMULATION_FREE, the bytes of memory that are said to be free.
 */
#define _GNU_SOURCE
#include <cuda.h>
#undef cuEventElapsedTime
#undef cuMemAdvise
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct { char path[512]; void *code; int tried; } Module;
typedef struct { Module *module; char name[256]; void (*run)(void *, unsigned, unsigned); } Function;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int modules;

static const char *folder(void) {
    const char *d = getenv("CUDA_EMULATION_DIR");
    if (!d) d = ".";
    mkdir(d, 0777);
    return d;
}

static void note(const char *format, ...) {
    char path[600];
    snprintf(path, sizeof path, "%s/log", folder());
    FILE *f = fopen(path, "a");
    if (!f) return;
    va_list list;
    va_start(list, format);
    vfprintf(f, format, list);
    va_end(list);
    fputc('\n', f);
    fclose(f);
}

static size_t total(void) { return 80ull << 30; }

CUresult cuInit(unsigned f) { return 0; }
CUresult cuDriverGetVersion(int *v) { *v = 13000; return 0; }
CUresult cuDeviceGetCount(int *n) { *n = 1; return 0; }
CUresult cuDeviceGet(CUdevice *d, int i) { *d = i; return 0; }
CUresult cuDeviceGetName(char *s, int n, CUdevice d) { snprintf(s, n, "emulation of an H100"); return 0; }
CUresult cuDeviceTotalMem(size_t *b, CUdevice d) { *b = total(); return 0; }
CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice d) {
    switch (a) {
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *v = 9; break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *v = 0; break;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *v = 132; break;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *v = 2048; break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *v = 232448; break;
        default: *v = 1;
    }
    return 0;
}
CUresult cuDeviceCanAccessPeer(int *c, CUdevice a, CUdevice b) { *c = 0; return 0; }
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) { *c = (CUcontext) 0x1000; return 0; }
CUresult cuDevicePrimaryCtxRelease(CUdevice d) { return 0; }
CUresult cuCtxPushCurrent(CUcontext c) { return 0; }
CUresult cuCtxPopCurrent(CUcontext *c) { if (c) *c = (CUcontext) 0x1000; return 0; }
CUresult cuCtxSynchronize(void) { note("finish"); return 0; }
CUresult cuCtxEnablePeerAccess(CUcontext c, unsigned f) { return 0; }

CUresult cuStreamCreate(CUstream *s, unsigned f) { *s = (CUstream) malloc(8); return 0; }
CUresult cuStreamDestroy(CUstream s) { return 0; }
CUresult cuStreamSynchronize(CUstream s) { return 0; }
CUresult cuEventCreate(CUevent *e, unsigned f) { *e = (CUevent) malloc(8); return 0; }
CUresult cuEventDestroy(CUevent e) { free(e); return 0; }
CUresult cuEventRecord(CUevent e, CUstream s) { note("record %p on %p", (void *) e, (void *) s); return 0; }
CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned f) { note("wait %p on %p", (void *) e, (void *) s); return 0; }
CUresult cuStreamWaitEvent_ptsz(CUstream s, CUevent e, unsigned f) { return cuStreamWaitEvent(s, e, f); }
CUresult cuEventSynchronize(CUevent e) { return 0; }
CUresult cuEventQuery(CUevent e) { return 0; }
CUresult cuEventElapsedTime(float *t, CUevent a, CUevent b) { *t = 1; return 0; }
CUresult cuLaunchHostFunc(CUstream s, CUhostFn f, void *p) { f(p); return 0; }

static CUresult get(CUdeviceptr *p, size_t n) {
    void *q = NULL;
    if (posix_memalign(&q, 256, n ? n : 1)) return CUDA_ERROR_OUT_OF_MEMORY;
    *p = (CUdeviceptr) q;
    return 0;
}
CUresult cuMemAlloc(CUdeviceptr *p, size_t n) { return get(p, n); }
CUresult cuMemFree(CUdeviceptr p) { free((void *) p); return 0; }
CUresult cuMemAllocAsync(CUdeviceptr *p, size_t n, CUstream s) { return get(p, n); }
CUresult cuMemFreeAsync(CUdeviceptr p, CUstream s) { free((void *) p); return 0; }
CUresult cuMemAllocHost(void **p, size_t n) { return get((CUdeviceptr *) p, n); }
CUresult cuMemFreeHost(void *p) { free(p); return 0; }
CUresult cuMemAdvise(CUdeviceptr p, size_t n, int a, int l) { return 0; }
CUresult cuMemGetInfo(size_t *b, size_t *all) {
    const char *said = getenv("CUDA_EMULATION_FREE");
    *all = total();
    *b = said ? strtoull(said, NULL, 10) : *all;
    return 0;
}
CUresult cuMemcpy(CUdeviceptr d, CUdeviceptr s, size_t n) { note("copy %zu", n); memcpy((void *) d, (void *) s, n); return 0; }
CUresult cuMemcpyAsync(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream t) {
    note("copy %zu on %p", n, (void *) t);
    memcpy((void *) d, (void *) s, n);
    return 0;
}
CUresult cuMemsetD8Async(CUdeviceptr d, unsigned char v, size_t n, CUstream s) { memset((void *) d, v, n); return 0; }
CUresult cuMemsetD16Async(CUdeviceptr d, unsigned short v, size_t n, CUstream s) {
    for (size_t i = 0; i < n; i++) ((unsigned short *) d)[i] = v;
    return 0;
}
CUresult cuMemsetD32Async(CUdeviceptr d, unsigned v, size_t n, CUstream s) {
    for (size_t i = 0; i < n; i++) ((unsigned *) d)[i] = v;
    return 0;
}
CUresult cuPointerGetAttribute(void *v, CUpointer_attribute a, CUdeviceptr p) {
    *(int *) v = a == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? CU_MEMORYTYPE_DEVICE : 0;
    return 0;
}

CUresult cuModuleLoadDataEx(CUmodule *m, const void *image, unsigned n, CUjit_option *o, void **values) {
    Module *x = calloc(1, sizeof *x);
    pthread_mutex_lock(&lock);
    int number = modules++;
    pthread_mutex_unlock(&lock);
    snprintf(x->path, sizeof x->path, "%s/%d_%03d.ptx", folder(), (int) getpid(), number);
    FILE *f = fopen(x->path, "w");
    if (f) { fputs(image, f); fclose(f); }
    /* a log that is not empty says: compiled anew, not found in a cache */
    for (unsigned k = 0; k < n; k++)
        if (o[k] == CU_JIT_INFO_LOG_BUFFER) strcpy((char *) values[k], "emulation");
    *m = (CUmodule) x;
    return 0;
}
CUresult cuModuleLoadData(CUmodule *m, const void *image) { return cuModuleLoadDataEx(m, image, 0, 0, 0); }
CUresult cuModuleUnload(CUmodule m) { return 0; }
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
    Function *x = calloc(1, sizeof *x);
    x->module = (Module *) m;
    snprintf(x->name, sizeof x->name, "%s", name);
    *f = (CUfunction) x;
    return 0;
}
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v) { return 0; }
CUresult cuOccupancyMaxPotentialBlockSize(int *g, int *b, CUfunction f, CUoccupancyB2DSize s, size_t d, int l) {
    *g = 132;
    *b = 128;
    return 0;
}

/* C of the module, compiled and loaded; on a failure the launch fails, with a line in the log. */
static int translate(Module *m) {
    char command[2400], shared[600];
    snprintf(shared, sizeof shared, "%s.so", m->path);
    snprintf(command, sizeof command,
             "LD_LIBRARY_PATH= \"$CUDA_EMULATION_PYTHON\" \"$CUDA_EMULATION_PTX_TO_C\" %s %s.c 2>>%s/log && "
             "gcc -w -O1 -ffp-contract=off -mfma -shared -fPIC -o %s %s.c -lm 2>>%s/log",
             m->path, m->path, folder(), shared, m->path, folder());
    if (system(command)) return 1;
    m->code = dlopen(shared, RTLD_NOW | RTLD_LOCAL);
    if (!m->code) note("dlopen: %s", dlerror());
    return !m->code;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream s, void **params, void **extra) {
    Function *f = (Function *) function;
    note("launch %s of %s on %p", f->name, f->module->path, (void *) s);
    if (!strcmp(f->name, "fill_64") && params) { /* (uint64_t *out, uint32_t size, uint64_t value) */
        for (uint32_t i = 0; i < *(uint32_t *) params[1]; i++)
            (*(uint64_t **) params[0])[i] = *(uint64_t *) params[2];
        return 0;
    }
    if (!getenv("CUDA_EMULATION_PTX_TO_C")) return 0;
    void *arguments = NULL;
    for (int k = 0; extra && extra[k] != CU_LAUNCH_PARAM_END; k += 2)
        if (extra[k] == CU_LAUNCH_PARAM_BUFFER_POINTER) arguments = extra[k + 1];
    pthread_mutex_lock(&lock);
    if (!f->module->tried && (f->module->tried = 1) && translate(f->module))
        note("cannot translate %s", f->module->path);
    if (f->module->code && !f->run) f->run = dlsym(f->module->code, f->name);
    pthread_mutex_unlock(&lock);
    if (!f->run || !arguments) return CUDA_ERROR_INVALID_IMAGE;
    f->run(arguments, gx, bx);
    return 0;
}

CUresult cuGetErrorName(CUresult e, const char **s) { *s = "emulated"; return 0; }
CUresult cuGetErrorString(CUresult e, const char **s) { *s = "emulated"; return 0; }
CUresult cuProfilerStart(void) { return 0; }
CUresult cuProfilerStop(void) { return 0; }

/* Dr.Jit looks these up at its start; no kernel of ours comes to them. */
#undef cuArrayCreate
#undef cuArray3DCreate
#undef cuArray3DGetDescriptor
#undef cuMemcpy2DAsync
#undef cuMemcpy3DAsync
#define NONE(name) __attribute__((alias("nothing"))) CUresult none_##name(void) __asm__(#name);
CUresult nothing(void) { return CUDA_ERROR_NOT_SUPPORTED; }
NONE(cuArrayCreate_v2) NONE(cuArray3DCreate_v2) NONE(cuArray3DGetDescriptor_v2) NONE(cuArrayDestroy)
NONE(cuMipmappedArrayCreate) NONE(cuMipmappedArrayGetLevel) NONE(cuMipmappedArrayDestroy)
NONE(cuTexObjectCreate) NONE(cuTexObjectGetResourceDesc) NONE(cuTexObjectDestroy)
NONE(cuSurfObjectCreate) NONE(cuSurfObjectDestroy) NONE(cuMemcpy2DAsync_v2) NONE(cuMemcpy3DAsync_v2)
NONE(cuGraphicsGLRegisterBuffer) NONE(cuGraphicsGLRegisterImage) NONE(cuGraphicsUnregisterResource)
NONE(cuGraphicsMapResources) NONE(cuGraphicsUnmapResources) NONE(cuGraphicsSubResourceGetMappedArray)
NONE(cuGraphicsResourceGetMappedPointer)
