package lex

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// NumberLit is a numeric literal.
type NumberLit struct {
	Float bool
	// Of an integer: its value, base (2, 8, 10 or 16), u suffix and number of l's.
	Int      uint64
	Base     int
	Unsigned bool
	Long     int
	// Of a float: the digits without suffix and separators, as strconv.ParseFloat
	// reads them, and the suffix: "", "f", "h" or "bf".
	Text   string
	Suffix string
}

// ParseNumber reads a preprocessing number as a literal.
func ParseNumber(text string) (NumberLit, error) {
	s := strings.ReplaceAll(text, "'", "")
	lower := strings.ToLower(s)
	if strings.HasPrefix(lower, "0x") {
		if strings.ContainsAny(lower, ".p") {
			return hexFloat(text, lower)
		}
		return integer(text, lower[2:], 16)
	}
	if strings.HasPrefix(lower, "0b") && !strings.HasPrefix(lower, "0bf") {
		return integer(text, lower[2:], 2)
	}
	if strings.Contains(lower, ".") || strings.Contains(lower, "e") {
		return decimalFloat(text, lower)
	}
	if lower[0] == '0' && len(lower) > 1 && isDigit(lower[1]) {
		return integer(text, lower[1:], 8)
	}
	return integer(text, lower, 10)
}

// integer reads digits and suffix.
func integer(text, s string, base int) (NumberLit, error) {
	n := NumberLit{Base: base}
	i := 0
	overflow := false
	for ; i < len(s); i++ {
		d := 99
		switch c := s[i]; {
		case isDigit(c):
			d = int(c - '0')
		case base == 16 && 'a' <= c && c <= 'f':
			d = int(c-'a') + 10
		}
		if d == 99 {
			break
		}
		if d >= base {
			return n, fmt.Errorf("digit '%c' in the base %d literal %s", s[i], base, text)
		}
		if n.Int > (1<<64-1-uint64(d))/uint64(base) {
			overflow = true
		}
		n.Int = n.Int*uint64(base) + uint64(d)
	}
	if i == 0 && base != 8 {
		return n, fmt.Errorf("integer literal %s without digits", text)
	}
	if overflow {
		return n, fmt.Errorf("integer literal %s is larger than 64 bits", text)
	}
	switch s[i:] {
	case "":
	case "u":
		n.Unsigned = true
	case "l":
		n.Long = 1
	case "ul", "lu":
		n.Unsigned, n.Long = true, 1
	case "ll":
		n.Long = 2
	case "ull", "llu":
		n.Unsigned, n.Long = true, 2
	case "f", "h", "bf":
		return n, fmt.Errorf("suffix '%s' on an integer literal: expected a floating literal such as %s.0%s", s[i:], s[:i], s[i:])
	default:
		return n, fmt.Errorf("unknown suffix '%s' on integer literal %s", s[i:], text)
	}
	return n, nil
}

// decimalFloat reads digits [. digits] [e[+-]digits] suffix.
func decimalFloat(text, s string) (NumberLit, error) {
	digits := func(i int) int {
		for i < len(s) && isDigit(s[i]) {
			i++
		}
		return i
	}
	i := digits(0)
	if i < len(s) && s[i] == '.' {
		i = digits(i + 1)
	}
	if i < len(s) && s[i] == 'e' {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		end := digits(i)
		if end == i {
			return NumberLit{}, fmt.Errorf("exponent of floating literal %s without digits", text)
		}
		i = end
	}
	return floatSuffix(text, s[:i], s[i:])
}

// hexFloat reads 0x digits [. digits] p[+-]digits suffix.
func hexFloat(text, s string) (NumberLit, error) {
	p := strings.IndexByte(s, 'p')
	if p < 0 {
		return NumberLit{}, fmt.Errorf("hexadecimal floating literal %s without exponent: expected 'p'", text)
	}
	mantissa := s[2:p]
	if strings.Trim(mantissa, "0123456789abcdef.") != "" || strings.Count(mantissa, ".") > 1 || strings.Trim(mantissa, ".") == "" {
		return NumberLit{}, fmt.Errorf("malformed hexadecimal floating literal %s", text)
	}
	i := p + 1
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		i++
	}
	start := i
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	if i == start {
		return NumberLit{}, fmt.Errorf("exponent of floating literal %s without digits", text)
	}
	return floatSuffix(text, s[:i], s[i:])
}

func floatSuffix(text, number, suffix string) (NumberLit, error) {
	switch suffix {
	case "", "f", "h", "bf":
		return NumberLit{Float: true, Text: number, Suffix: suffix}, nil
	case "l":
		return NumberLit{}, fmt.Errorf("long double literal %s: the language has no double", text)
	}
	return NumberLit{}, fmt.Errorf("unknown suffix '%s' on floating literal %s", suffix, text)
}

// Unquote resolves a string literal.
func Unquote(text string) (string, error) {
	if strings.HasPrefix(text, "R\"") {
		open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
		if open < 0 || end < open {
			return "", errors.New("malformed raw string")
		}
		return text[open+1 : end], nil
	}
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return "", errors.New("malformed string literal")
	}
	return unescape(text[1 : len(text)-1])
}

// UnquoteChar resolves a character literal. Several characters make the value
// that C compilers give: bytes, first one highest.
func UnquoteChar(text string) (int32, error) {
	if len(text) < 3 || text[0] != '\'' || text[len(text)-1] != '\'' {
		return 0, errors.New("malformed character literal")
	}
	s, err := unescape(text[1 : len(text)-1])
	if err != nil {
		return 0, err
	}
	if len(s) == 1 {
		return int32(int8(s[0])), nil
	}
	if len(s) > 4 {
		return 0, fmt.Errorf("character literal of %d bytes: expected at most 4", len(s))
	}
	var v int32
	for i := 0; i < len(s); i++ {
		v = v<<8 | int32(s[i])
	}
	return v, nil
}

func unescape(s string) (string, error) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i >= len(s) {
			return "", errors.New("escape sequence without a character")
		}
		if j := strings.IndexByte(`abfnrtv\'"?`, s[i]); j >= 0 {
			b.WriteByte("\a\b\f\n\r\t\v\\'\"?"[j])
			continue
		}
		n, used, err := numericEscape(s[i:])
		if err != nil {
			return "", err
		}
		if s[i] == 'u' || s[i] == 'U' {
			if n > utf8.MaxRune || n >= 0xd800 && n < 0xe000 {
				return "", fmt.Errorf("escape sequence \\%s is no character", s[i:i+used])
			}
			b.WriteRune(rune(n))
		} else {
			if n > 255 {
				return "", fmt.Errorf("escape sequence \\%s is larger than a byte", s[i:i+used])
			}
			b.WriteByte(byte(n))
		}
		i += used - 1
	}
	return b.String(), nil
}

// numericEscape reads x.., u.... U........ or up to three octal digits.
func numericEscape(s string) (n uint32, used int, err error) {
	read := func(from, most int, base uint32) int {
		i := from
		for ; i < len(s) && i-from < most; i++ {
			d := uint32(99)
			switch c := s[i]; {
			case isDigit(c):
				d = uint32(c - '0')
			case 'a' <= c && c <= 'f':
				d = uint32(c-'a') + 10
			case 'A' <= c && c <= 'F':
				d = uint32(c-'A') + 10
			}
			if d >= base {
				break
			}
			n = n*base + d
		}
		return i
	}
	switch {
	case s[0] >= '0' && s[0] <= '7':
		used = read(0, 3, 8)
		return n, used, nil
	case s[0] == 'x':
		if used = read(1, 8, 16); used > 1 {
			return n, used, nil
		}
	case s[0] == 'u':
		if used = read(1, 4, 16); used == 5 {
			return n, used, nil
		}
	case s[0] == 'U':
		if used = read(1, 8, 16); used == 9 {
			return n, used, nil
		}
	}
	r, _ := utf8.DecodeRuneInString(s)
	return 0, 0, fmt.Errorf("unknown or incomplete escape sequence \\%c", r)
}
