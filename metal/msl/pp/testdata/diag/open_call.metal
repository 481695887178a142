#define TWO(a, b) a b
#if 1
x TWO(1,
(2
