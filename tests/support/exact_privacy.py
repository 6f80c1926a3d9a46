"""An independent reference: delta(epsilon) as a Bromwich integral of the loss's complex moments.

delta(epsilon) = 1 / (2 pi i) * integral of e^(-s epsilon) M(s) / (s (s + 1)) ds over Re s = c > 0, where M is the
moment generating function of the composed privacy loss. Shares no code with the accountant: no grid of losses, no
Fourier composition, no Renyi conversion.
"""

import math

import numpy as np
from scipy.optimize import minimize_scalar


def _log_moment(s, mu, rate, remove):
    """log E_P[e^(s L)] for an array of complex s."""
    s = np.atleast_1d(s)
    low = -14.0 - abs(mu)
    high = 14.0 + (float(np.max(s.real)) + 2) * mu
    step = min(0.02, 0.1 / mu)
    x = np.arange(low, high + step, step)
    exponent = mu * x - mu * mu / 2
    log_ratio = np.where(
        exponent > 30, np.log(rate) + exponent, np.log1p(rate * np.expm1(np.minimum(exponent, 30)))
    )
    log_density = -x * x / 2 + np.log(step / math.sqrt(2 * math.pi))
    power = (s + 1) if remove else -s
    result = np.empty(len(s), dtype=complex)
    for start in range(0, len(s), 256):
        block = power[start : start + 256, None] * log_ratio[None, :] + log_density[None, :]
        peak = block.real.max(axis=1, keepdims=True)
        result[start : start + 256] = peak[:, 0] + np.log(np.exp(block - peak).sum(axis=1))
    return result


def delta(epsilon, *, steps=(), mu=0.0, remove=True):
    """delta at epsilon of sampled steps (noise, rate, times) and one Gaussian of parameter mu."""

    def log_moment(s):
        total = (s * s + s) * mu * mu / 2
        for noise, rate, times in steps:
            total = total + times * _log_moment(s, 1 / noise, rate, remove)
        return total

    def height(log_c):
        c = np.array([math.exp(log_c) + 0j])
        return float((log_moment(c) - c * epsilon - np.log(c) - np.log(c + 1)).real[0])

    best = minimize_scalar(
        height, bounds=(math.log(1e-2), math.log(2e3)), method="bounded", options={"xatol": 1e-3}
    )
    c = math.exp(best.x)
    nudge = 1e-3 * c
    curvature = (height(math.log(c + nudge)) - 2 * best.fun + height(math.log(c - nudge))) / nudge**2
    width = 1 / math.sqrt(max(curvature, 1e-12))
    # Block by block until the integrand has died out. Without a Gaussian part it may fall only like 1 / |s|²; such
    # schedules (few steps at a small rate) are not for this reference.
    step = width / 40
    total, first = 0.0, None
    for block in range(120):
        t = (np.arange(400) + 400 * block) * step
        s = c + 1j * t
        values = np.exp(log_moment(s) - s * epsilon - np.log(s) - np.log(s + 1)).real
        if first is None:
            first = values[0]
            values[0] /= 2
        total += float(values.sum()) * step
        if np.abs(values).max() < 1e-10 * abs(first):
            return total / math.pi
    raise ValueError("the integrand does not die out; choose an easier schedule.")
