package tokenizer

import (
	"math/rand/v2"
	"strings"
	"unicode"
)

// longRun is the length of the longest runs of one character, in bytes: enough
// for a quadratic tokenizer to show, little enough that all texts together stay
// small.
const longRun = 3000

// randomTexts is how many texts Strings adds to the fixed ones.
const randomTexts = 3000

// Strings gives more than 10,000 texts, the same ones for the same seed: first a
// fixed list of corners, then random ones. Some are not valid UTF-8. None has a
// four-byte sequence for a number above U+10FFFF, which ends llama.cpp's process.
func Strings(seed uint64) []string {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 0x746f6b656e)), seen: map[string]bool{}}
	g.corners()
	for n := len(g.out) + randomTexts; len(g.out) < n; {
		g.random()
	}
	return g.out
}

type generator struct {
	rng  *rand.Rand
	out  []string
	seen map[string]bool
}

// add appends a text that is new.
func (g *generator) add(s string) {
	s = defuse(s)
	if !g.seen[s] {
		g.seen[s] = true
		g.out = append(g.out, s)
	}
}

// defuse breaks the four-byte sequences above U+10FFFF.
func defuse(s string) string {
	b := []byte(s)
	for i := range b {
		if i+3 < len(b) && (b[i] == 0xf4 && b[i+1] >= 0x90 || 0xf5 <= b[i] && b[i] <= 0xf7) {
			b[i] = 0xf8
		}
	}
	return string(b)
}

// spaces are all characters with the property White_Space, and some that look
// like them and are none.
var spaces = []string{
	"\t", "\n", "\v", "\f", "\r", " ", "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004",
	"\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000",
	"\u200b", "\u2060", "\ufeff", "\u180e", "\x1c", "\x1f", "\x00",
}

// suffixes begin contractions, and nearly do.
var suffixes = []string{
	"s", "S", "t", "T", "re", "RE", "Re", "rE", "ve", "VE", "Ve", "vE", "m", "M", "ll", "LL", "Ll", "lL", "d", "D",
	"ſ", "ſt", "ı", "İ", "K", "ᵐ", "r", "v", "l", "R", "V", "L", "x", "es", "é", "1", " s", "'", "ｓ", "ｄ", "ß", "ŀl",
}

var prose = []string{
	"The quick brown fox jumps over the lazy dog.", "It's a dog's life, they'll say; I'd've thought we're DONE, aren't WE'RE?",
	"Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.", "Les œuvres d'été coûtent très cher à l'aéroport.",
	"Съешь же ещё этих мягких французских булок, да выпей чаю.", "Ο καλύμνιος σφουγγαράς ψιθύρισε πως θα βουτήξει.",
	"我能吞下玻璃而不伤身体。今天天气怎么样？", "私はガラスを食べられます。それは私を傷つけません。", "나는 유리를 먹을 수 있어요. 그래도 아프지 않아요",
	"أنا قادر على أكل الزجاج و هذا لا يؤلمني. ١٢٣٤", "אני יכול לאכול זכוכית וזה לא מזיק לי", "मैं काँच खा सकता हूँ और मुझे उससे कोई चोट नहीं पहुंचती. १२३",
	"ฉันกินกระจกได้ แต่มันไม่ทำให้ฉันเจ็บ", "நான் கண்ணாடி சாப்பிடுவேன், அதனால் எனக்கு ஒரு கேடும் வராது.", "মই কাঁচ খাব পাৰোঁ",
	"Tôi có thể ăn thủy tinh mà không hại gì.", "ខ្ញុំអាចញុំកញ្ចក់បាន", "မြန်မာဘာသာ", "ཤེལ་སྒོ་ཟ་ནས་ང་ན་གི་མ་རེད།", "𝕳𝖊𝖑𝖑𝖔 𝟙𝟚𝟛 𐍈𐌰",
}

var code = []string{
	"func main() {\n\tfmt.Println(\"hi\", 1234567890, 0x1F, 3.14e-10)\n}\n", "if (a<b&&c>=d||!e) { return x->y[i++] ^ ~z; } // 2*3\r\n",
	"def f(x, *args, **kw):\n    '''doc'''\n    return {k: v for k, v in kw.items() if k != 'x'}\n\n\n", "SELECT * FROM t WHERE a='it''s' AND b<>10;",
	"<div class=\"a-b_c\" data-x='1'>&nbsp;</div>\n", "#include <stdio.h>\n\n\n    int main(void)   {   return 0;   }   \n",
	"a\t\tb\t c \t d\n\t\n \n  \n", "https://example.com/p?q=1&r=a%20b#frag", "user@example.org, +49 (0)30 123-456-78", "{\"k\": [1, 2.50, -3e8, null, true]}",
	"    \n        deeply\n            indented\n", "x = 100000 + 99999 - 1_000_000 * 12,345.678", "$$\\frac{a}{b}$$ \\alpha_{i}^{2}",
}

var emoji = []string{
	"🙂", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "❤️", "1️⃣", "👩🏿‍💻", "🧑‍🤝‍🧑", "☕", "™️", "#️⃣", "\U0001faf1\U0001f3fb\u200d\U0001faf2\U0001f3ff", "\u200d", "\ufe0f",
}

var marks = []string{"\u0301", "\u0308", "\u0327", "\u20dd", "\u0e31", "\u093f", "\u05b0", "\u064b", "\u1ab0", "\u200c", "\u0483", "\u0fb7"}

// numbers are of Nd, Nl and No, in several scripts.
var numbers = []string{"0", "7", "42", "123", "1234", "12345678901", "²", "½", "Ⅻ", "٣٤٥", "१२", "๓", "𝟘𝟙", "①", "〇", "㊿", "፩", "𐄇", "໑", "৪", "〡"}

// invalid are sequences that are not UTF-8, each of another kind.
var invalid = []string{
	"\x80", "\xbf", "\x80\x80\x80", "\xc3", "\xc3(", "\xe4\xb8", "\xe4", "\xe4(\xad", "\xe4\xb8(", "\xf0\x9f\x99", "\xf0\x9f", "\xf0", "\xf0(\x9f\x99", "\xf0\x9f\x99(",
	"\xc0\x80", "\xc0\xaf", "\xc1\x81", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x80\xb1", "\xe0\x9f\xbf", "\xf0\x80\x80\xa0", "\xf0\x80\x81\x81", "\xf0\x8f\xbf\xbf", // overlong
	"\xed\xa0\x80", "\xed\xbf\xbf", "\xed\xa0\xbd\xed\xb9\x82", // surrogates
	"\xf8\x88\x80\x80\x80", "\xfc\x84\x80\x80\x80\x80", "\xfe", "\xff", "\xff\xfe", "\xfe\xff", "\xf4\x8f\xbf\xbf", "\xef\xbf\xbf", "\xef\xbf\xbd", "\xef\xb7\x90", "\xf5", "\xf7\x80", "\xf4\x90", "\xf4\x90\x80",
}

// markers are texts of special tokens, of the synthetic vocabularies and of real
// ones.
var markers = func() []string {
	m := []string{
		"<|begin_of_text|>", "<|eot_id|>", "<tool_response>", "</tool_response>", "</tool_call>", "<|fim_pad|>", "<|file_sep|>", "<|vision_start|>",
		"<|object_ref_start|>", "<|box_end|>", "<|quad_start|>", "<|image_pad|>", "<|fim_suffix|>", "<|fim_middle|>",
	}
	for _, s := range specials {
		m = append(m, s.text)
	}
	return m
}()

// corners are the texts that need no chance.
func (g *generator) corners() {
	g.add("")
	for c := range 256 {
		g.add(string([]byte{byte(c)}))
		g.add("a" + string([]byte{byte(c)}) + "b")
	}
	for _, list := range [][]string{letters, spaces, prose, code, emoji, marks, numbers, invalid, markers, words} {
		for _, s := range list {
			g.add(s)
			g.add(s + s)
			g.add(" " + s)
			g.add(s + " ")
			g.add("a" + s + "1")
			g.add(" " + s + " x")
		}
	}
	for _, a := range letters {
		for _, b := range letters {
			g.add(a + b)
		}
	}
	for _, s := range suffixes {
		for _, q := range []string{"'", "’", "ʼ", "`", " '", "''", "\n'"} {
			g.add("it" + q + s)
			g.add(q + s + "x")
			g.add("1" + q + s + " ")
		}
	}
	for _, a := range spaces {
		for _, b := range spaces {
			g.add(a + b + "x")
			g.add("x" + a + b)
		}
		g.add("x  " + a + "  y")
		g.add(a + "1" + a + a + "1" + a)
		g.add("." + a + "." + a + a)
	}
	for n := 1; n <= 12; n++ {
		d := "123456789012"[:n]
		g.add(d)
		g.add("a" + d + "b " + d)
		g.add(strings.Repeat(" ", n) + "x")
		g.add(strings.Repeat(" ", n) + d)
		g.add(strings.Repeat("\n", n) + " x" + strings.Repeat("\n", n))
		g.add("!" + strings.Repeat("\r\n", n) + "x")
		g.add(strings.Repeat("'", n) + "s")
	}
	for _, s := range []string{"a", " ", "\n", "1", ".", "中", "🙂", "\u0301", "ab", "a ", " \n", "a1", "'s", "\xff", "é中", "<|im_start|>", "\u3000", "<ab<a><"} {
		for _, n := range []int{3, 7, 17, 64, longRun / len(s)} {
			g.add(strings.Repeat(s, n))
			g.add(strings.Repeat(s, n) + "x")
			g.add("x" + strings.Repeat(s, n))
		}
	}
	for _, m := range markers {
		g.near(m)
	}
}

// near adds what is almost a special token, and special tokens in odd company.
func (g *generator) near(m string) {
	g.add(m[1:])
	g.add(m[:len(m)-1])
	g.add(m[:len(m)/2] + " " + m[len(m)/2:])
	g.add(strings.ToUpper(m))
	g.add(strings.Replace(m, "|", "｜", 1))
	g.add(m[:len(m)-1] + m)
	g.add(m + m[1:])
	g.add("  " + m + "  ")
	g.add("\n" + m + "\n")
	g.add("hello" + m + "hello")
	g.add("\xe4\xb8" + m + "\xad")
	g.add("12" + m + "34")
}

// random adds a text of one of several kinds.
func (g *generator) random() {
	switch g.rng.IntN(8) {
	case 0: // characters of the classes, in any order
		g.add(g.several(2, 14, letters))
	case 1: // fragments of every kind
		g.add(g.several(2, 9, letters, spaces, suffixes, prose, code, emoji, marks, numbers, invalid, markers, words))
	case 2: // any code points, unassigned ones and surrogates too
		var b strings.Builder
		for range 1 + g.rng.IntN(12) {
			b.WriteString(g.anyRune())
		}
		g.add(b.String())
	case 3: // any bytes
		b := make([]byte, 1+g.rng.IntN(24))
		for i := range b {
			b[i] = byte(g.rng.IntN(256))
		}
		g.add(string(b))
	case 4: // a good text with one byte damaged
		b := []byte(g.several(1, 2, prose, code, emoji))
		i := g.rng.IntN(len(b))
		if g.rng.IntN(2) == 0 {
			b[i] = byte(g.rng.IntN(256))
		} else {
			b = append(b[:i], b[i+1:]...)
		}
		g.add(string(b))
	case 5: // contractions among words and white space
		g.add(g.several(2, 10, suffixes, []string{"'", "'", "'", " ", "\n"}, words))
	case 6: // white space, digits and line ends
		g.add(g.several(3, 16, spaces, []string{" ", " ", "\n", "\r\n", "\r", "a", ".", "1"}, numbers))
	case 7: // special tokens and pieces of them
		var b strings.Builder
		for range 1 + g.rng.IntN(6) {
			m := markers[g.rng.IntN(len(markers))]
			switch g.rng.IntN(4) {
			case 0:
				m = m[g.rng.IntN(len(m)):]
			case 1:
				m = m[:g.rng.IntN(len(m))]
			}
			b.WriteString(m)
			if g.rng.IntN(3) == 0 {
				b.WriteString(g.several(1, 2, letters, words, spaces))
			}
		}
		g.add(b.String())
	}
}

// several joins lo to hi elements of the lists.
func (g *generator) several(lo, hi int, lists ...[]string) string {
	var b strings.Builder
	for range lo + g.rng.IntN(hi-lo+1) {
		list := lists[g.rng.IntN(len(lists))]
		b.WriteString(list[g.rng.IntN(len(list))])
	}
	return b.String()
}

// anyRune gives a code point from a plane and a block by chance, as UTF-8 even
// where it is a surrogate.
func (g *generator) anyRune() string {
	r := rune(g.rng.IntN(unicode.MaxRune + 1))
	switch g.rng.IntN(5) {
	case 0:
		r = rune(g.rng.IntN(0x80))
	case 1:
		r = rune(g.rng.IntN(0x3000))
	case 2:
		r = rune(g.rng.IntN(0x10000))
	case 3:
		r = 0x10000 + rune(g.rng.IntN(0x14000))
	}
	if 0xd800 <= r && r <= 0xdfff {
		return string([]byte{0xed, 0x80 | byte(r>>6&0x3f), 0x80 | byte(r&0x3f)})
	}
	return string(r)
}
