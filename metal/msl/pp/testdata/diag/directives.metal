#define
#define 1x
#define defined 2
#undef
#undef 3
#define F(a, a) a
#define G(a b) a
#define H(a, ...,) a
#define I(
#define J(1) a
#define K ## a
#define L a ##
#define M(a) # b
#define N __VA_ARGS__
#define O 1
#define O 2
#unknown thing
#include
#include "missing.h"
#include <missing.h>
#include 3
#error something is "wrong" // here
#warning be careful
#line 3
#ifdef
#endif
#endif more
#else
#elif 1
#if 1
#else
#else
#elif 2
#endif trailing
#if
#elif 1
#endif
#if 1 +
#endif
#if (1
#endif
#if 1 2
#endif
#if 1 / 0
#endif
#if 1.5
#endif
#if defined(
#endif
#if "a"
#endif
#if 1 ? 2
#endif
#if 09
#endif
#if __has_include(x
#endif
#ifndef O
