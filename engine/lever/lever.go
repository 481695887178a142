// Package lever is every setting that reaches minfer through the environment:
// levers (which kernel or path is taken), switches (which backend, level or
// library) and observations (what is printed or recorded). [All] is the table
// of them.
//
// It is a leaf and imports nothing of the project. A command reads the
// environment once, with [Parse], and passes the [Levers] value down. No
// other package reads the environment, and a test of this package forbids it: an
// A/B comparison in one process needs two values, not one environment.
//
// Flags take 0 or 1, and an unset or empty variable is the default. Anything
// else, and any unknown name that begins with MINFER_, is an error: a misspelled
// lever must not pass for a measurement.
//
// All is read-only and Levers a plain value; both are safe for concurrent use.
package lever

// Levers holds the value of every setting. Default gives the state of an empty
// environment; it differs from the zero value in GEMM.
type Levers struct {
	// Levers of the Metal backend.
	NoFlash        bool   // MINFER_NO_FLASH
	NoPrefillFlash bool   // MINFER_NO_PREFILL_FLASH
	NoMatmulAttn   bool   // MINFER_NO_MATMUL_ATTN
	NoSplitAttn    bool   // MINFER_NO_SPLIT_ATTN
	NoRMS256       bool   // MINFER_NO_RMS_256
	GEMM           bool   // MINFER_GEMM
	CacheType      string // MINFER_CACHE_TYPE: "f16", "f32", "q8_0"; "" lets the backend choose
	AttnChunks     int    // MINFER_ATTN_CHUNKS: 1 to 16; 0 lets the backend choose
	NoFuseQKV      bool   // MINFER_NO_FUSE_QKV
	NoFuseFFN      bool   // MINFER_NO_FUSE_FFN
	WeightCopy     bool   // MINFER_WEIGHT_COPY

	// Switches.
	DisableMPS bool   // MINFER_DISABLE_MPS
	CPULevel   string // MINFER_CPU_LEVEL: "generic", "avx2", "avx512"; "" has avx2's bits by the fastest instructions
	LlamaLib   string // MINFER_LLAMA_LIB: a directory

	// Observations.
	GraphTrace   bool   // MINFER_GRAPH_TRACE
	OpProfile    bool   // MINFER_OP_PROFILE
	Trace        string // MINFER_TRACE: a directory
	MetalCapture string // MINFER_METAL_CAPTURE: a file
	MetallibFile string // MINFER_METALLIB_FILE: a file
}

// Kind says what a setting is for.
type Kind uint8

// KindLever changes which kernel or path is taken and is swept by A/B
// measurements; KindSwitch chooses a backend, a level or a library;
// KindObservation changes nothing but what is printed or recorded.
const (
	KindLever Kind = iota
	KindSwitch
	KindObservation
)

// String is the kind's name.
func (k Kind) String() string {
	switch k {
	case KindLever:
		return "lever"
	case KindSwitch:
		return "switch"
	}
	return "observation"
}

// A Lever describes one setting.
type Lever struct {
	Name    string   // of the environment variable
	Kind    Kind     //
	Values  []string // allowed, or nil where Form says it
	Form    string   // what a value is where Values is nil: "a directory"
	Default string   // the value that an unset variable stands for; "" is "let the program choose" or "off"
	Changes string   // what it changes
	// LiveWhen is the setting under which the lever changes anything, in words,
	// and Live the same as a predicate of the other levers.
	LiveWhen string
	Live     func(Levers) bool

	set func(*Levers, string)
	get func(Levers) string
}

// Get is the lever's value in l, as Parse would read it; "" where it is unset
// and has no default.
func (v Lever) Get(l Levers) string { return v.get(l) }

// With is l with the lever at another value. It is how a sweep makes its sides.
func (v Lever) With(l Levers, value string) (Levers, error) {
	if err := v.check(value); err != nil {
		return l, err
	}
	v.set(&l, value)
	return l, nil
}

var flagValues = []string{"0", "1"}

// flag makes a lever that is on or off; the default is filled in from Default.
func flag(name string, kind Kind, def string, field func(*Levers) *bool, changes string) Lever {
	return Lever{
		Name: name, Kind: kind, Values: flagValues, Default: def, Changes: changes,
		LiveWhen: "always", Live: always,
		set: func(l *Levers, v string) { *field(l) = v == "1" },
		get: func(l Levers) string {
			if *field(&l) {
				return "1"
			}
			return "0"
		},
	}
}

// text makes a lever whose value is a word of a list, or any text.
func text(name string, kind Kind, values []string, form string, field func(*Levers) *string, changes string) Lever {
	return Lever{
		Name: name, Kind: kind, Values: values, Form: form, Changes: changes,
		LiveWhen: "always", Live: always,
		set: func(l *Levers, v string) { *field(l) = v },
		get: func(l Levers) string { return *field(&l) },
	}
}

func always(Levers) bool { return true }

func metal(l Levers) bool { return !l.DisableMPS }

// when gives a lever its condition.
func (v Lever) when(words string, live func(Levers) bool) Lever {
	v.LiveWhen, v.Live = words, live
	return v
}

const onMetal = "on the Metal backend"
