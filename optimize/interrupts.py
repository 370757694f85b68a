"""Ctrl-C and SIGTERM end work at a safe point, always as a KeyboardInterrupt.

Python raises KeyboardInterrupt wherever it happens to be: within a callback of compiled code it
comes out as a RuntimeError, within a garbage collection it is lost. So it is remembered: in
``defer_interrupts()`` it waits for the next ``check()``, in ``note_interrupts()`` it is raised at
once, and again at the end, under its own name, if another error or nothing came out of it. A second
one is raised at once everywhere; for a command (``command()``) it ends the process, even within
compiled code.

Signals reach the main thread alone; in other threads all of this does nothing, and nothing is done
with a signal that is ignored or that has a handler of the user's.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

EXIT_CODE = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)
PATIENCE = 1.0  # until a user is told that the end takes a while [s]
ECHO = 0.3  # signals that follow sooner are one: some shells and tools send it twice [s]
NOTICE = "\ninterrupted: ends when what is running now is done; once more ends it at once"


class _State:
    depth = 0  # of noting() blocks
    holds = 0  # of deferred() blocks
    pending = False  # a signal that has not ended anything yet
    last = 0.0  # when it came
    watched = False  # by a thread that tells the user
    resent = 0  # signals that are none of the user's, for the handler
    echoes = 0  # and for the thread


_state = _State()


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _handle(*_: object) -> None:
    now, again = time.monotonic(), _state.pending
    if _state.resent:
        _state.resent -= 1
        again = False
    elif again and now - _state.last < ECHO:
        return
    _state.pending, _state.last = True, now
    if _state.holds and not again:
        if not _state.watched:
            _tell(NOTICE)
        return
    raise KeyboardInterrupt


def _tell(text: str) -> None:
    with contextlib.suppress(Exception):  # the handler may have come in the middle of a print
        print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def note_interrupts() -> Iterator[None]:
    """Context in which a signal raises KeyboardInterrupt at once.

    Whatever becomes of that, the block ends with a KeyboardInterrupt.
    """
    if not _is_main():
        yield
        return
    with _handlers():
        try:
            yield
        except KeyboardInterrupt:
            _state.pending = False
            raise
        except Exception as error:
            _raise_pending(error)
            raise
        if _state.depth == 1:
            _raise_pending(None)


@contextlib.contextmanager
def defer_interrupts() -> Iterator[Callable[[], None]]:
    """Context in which a signal waits for the next call of the yielded ``check``, or the end."""
    if not _is_main():
        yield lambda: None
        return
    with _handlers():
        _state.holds += 1
        try:
            yield check
        except KeyboardInterrupt:
            _state.pending = False
            raise
        except Exception as error:
            _raise_pending(error)
            raise
        finally:
            _state.holds -= 1
        check()


def check() -> None:
    """Raise KeyboardInterrupt if a signal waits."""
    if _is_main():
        _raise_pending(None)


def _raise_pending(error: Exception | None) -> None:
    if _state.pending:
        _state.pending = False
        raise KeyboardInterrupt from error


@contextlib.contextmanager
def _handlers() -> Iterator[None]:
    """Context whose outermost block handles the signals, and restores the previous handlers."""
    _state.depth += 1
    if _state.depth > 1:
        try:
            yield
        finally:
            _state.depth -= 1
        return
    _state.pending = False
    # A handler of the user's, or a signal that is ignored, stays as it is.
    ours = [
        s for s in SIGNALS if signal.getsignal(s) in (signal.default_int_handler, signal.SIG_DFL)
    ]
    before = [signal.signal(each, _handle) for each in ours]
    hook, sys.unraisablehook = sys.unraisablehook, _unraisable(sys.unraisablehook)
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for each, handler in zip(ours, before):
            signal.signal(each, handler)
        _state.depth -= 1


def _unraisable(otherwise: Callable) -> Callable:
    """Hook for unraisable exceptions: an interrupt among them is sent again soon."""

    def hook(what) -> None:
        if not (_state.pending and isinstance(what.exc_value, KeyboardInterrupt)):
            otherwise(what)
            return

        def again() -> None:
            if _state.pending and _state.depth:
                _state.resent += 1
                _state.echoes += _state.watched
                os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(0.02, again)
        timer.daemon = True
        timer.start()

    return hook


# ---- commands


@contextlib.contextmanager
def command(hint: Callable[[], str]) -> Iterator[None]:
    """Context like ``note_interrupts()`` for a command: the user is told if the end takes long.

    A second signal ends the process at once, with the exit code 130. hint: what else to say then.
    Files are written as a whole or not at all, so nothing that is complete is lost.
    """
    if not _is_main():
        yield
        return
    here, there = socket.socketpair()
    there.setblocking(False)
    before = signal.set_wakeup_fd(there.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=_watch, args=(here, hint), daemon=True)
    thread.start()
    _state.watched = True
    try:
        with note_interrupts():
            yield
    finally:
        _state.watched = False
        signal.set_wakeup_fd(before)
        there.close()
        thread.join(PATIENCE)
        here.close()


def _watch(here: socket.socket, hint: Callable[[], str]) -> None:
    """Thread beside compiled code, during which the main thread handles no signals."""
    first = last = 0.0
    told = False
    while True:
        here.settimeout(None if told or not first else PATIENCE)
        try:
            numbers = here.recv(1)
        except TimeoutError:
            _tell(NOTICE)
            told = True
            continue
        except OSError:
            return
        if not numbers:
            return
        if numbers[0] not in SIGNALS:
            continue
        if _state.echoes:
            _state.echoes -= 1
            continue
        now = time.monotonic()
        if first and now - last > ECHO:
            _tell("\n".join(filter(None, ("\nended at once; complete results are saved", hint()))))
            os._exit(EXIT_CODE)
        first, last = first or now, now
