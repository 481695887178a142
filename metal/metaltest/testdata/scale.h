#pragma once

inline float scaled(float x, float by) { return x * by; }
