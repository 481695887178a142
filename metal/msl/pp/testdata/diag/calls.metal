#define TWO(a, b) a b
#define MANY(a, ...) a
#define NONE() x
#define PASTE(a, b) a ## b
#define OUTER(x) TWO(x)
TWO(1)
TWO(1, 2, 3)
NONE(1)
PASTE(+, 1)
  OUTER(5)
_Pragma(1) _Pragma "x"
"unfinished
'x
'' /* never
ends TWO(1,
