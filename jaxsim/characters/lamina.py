"""Mass properties of the planar human's links."""

import numpy as np


def tapered_capsule_lamina(length: float, r0: float, r1: float, mass: float):
    """Centre of mass and inertia of a uniform plate: a trapezoid with a half disc at each end.

    The plate lies in the x-z plane, from the disc centre at x = 0 (radius r0) to the one at
    x = -length (radius r1) [m]; mass [kg]. Returns com_x () [m] and the (3,) principal moments
    about the centre of mass [kg m^2]. In a plate I_yy = I_xx + I_zz.
    """
    # slices of the trapezoid at x = -s, half width w(s); Gauss-Legendre is exact for cubics
    nodes, weights = np.polynomial.legendre.leggauss(4)
    s = (nodes + 1) / 2 * length
    ds = weights / 2 * length
    w = r0 + (r1 - r0) * s / length
    area = [float(np.sum(2 * w * ds))]
    first = [float(np.sum(-s * 2 * w * ds))]
    along = [float(np.sum(s**2 * 2 * w * ds))]  # integral of x^2
    across = [float(np.sum(2 * w**3 / 3 * ds))]  # integral of z^2
    for centre, radius, side in ((0.0, r0, 1.0), (-length, r1, -1.0)):
        a = np.pi * radius**2 / 2
        offset = 4 * radius / (3 * np.pi)  # centroid of a half disc
        x = centre + side * offset
        own = np.pi * radius**4 / 8
        area.append(a)
        first.append(a * x)
        along.append(own - a * offset**2 + a * x**2)
        across.append(own)
    total = sum(area)
    com = sum(first) / total
    density = mass / total
    I_zz = density * (sum(along) - total * com**2)  # about z: spread along x
    I_xx = density * sum(across)
    return com, np.array([I_xx, I_xx + I_zz, I_zz])
