package parse

import (
	"strings"

	"minfer/metal/msl/lex"
)

// nameKind is what the parser has to know about a name.
type nameKind uint8

const (
	unknownName   nameKind = iota
	valueName              // variable, function, enumerator
	valueTemplate          // function or variable template
	typeName               // also a type parameter
	typeTemplate
	namespaceName
)

func (k nameKind) isType() bool     { return k == typeName || k == typeTemplate }
func (k nameKind) isTemplate() bool { return k == valueTemplate || k == typeTemplate }
func (k nameKind) isValue() bool    { return k == valueName || k == valueTemplate }

// entry is a name in a scope.
type entry struct {
	kind nameKind
	in   *scope // members of a namespace or record
}

// scope holds the names of a namespace, record, template head, parameter list or
// block.
type scope struct {
	names map[string]entry
	outer *scope
	using []*scope
	// head is a template's parameter scope: what the template declares belongs to
	// the scope around it.
	head   bool
	record string // the record's own name, which its constructors have
}

func newScope(outer *scope) *scope { return &scope{outer: outer} }

// find looks a name up in this scope alone.
func (s *scope) find(name string) (entry, bool) {
	if e, ok := s.names[name]; ok {
		return e, true
	}
	for _, u := range s.using {
		if e, ok := u.names[name]; ok {
			return e, true
		}
		if u == librarySpace {
			if e := library(name); e.kind != unknownName {
				return e, true
			}
		}
	}
	return entry{}, false
}

// push opens a scope; the result closes it.
func (p *parser) push(s *scope) func() {
	old := p.scope
	p.scope = s
	return func() { p.scope = old }
}

// declare enters a name into the current scope. A template stays known as one if
// a plain function of its name follows.
func (p *parser) declare(name string, e entry) {
	s := p.scope
	for s.head {
		s = s.outer
	}
	s.declare(name, e)
}

func (s *scope) declare(name string, e entry) {
	if name == "" {
		return
	}
	if s.names == nil {
		s.names = map[string]entry{}
	}
	if old, ok := s.names[name]; ok {
		if old.kind.isTemplate() && !e.kind.isTemplate() || old.kind.isType() && e.kind == old.kind && e.in == nil {
			return
		}
	}
	s.names[name] = e
}

// lookup finds an unqualified name.
func (p *parser) lookup(name string) entry {
	for s := p.scope; s != nil; s = s.outer {
		if e, ok := s.find(name); ok {
			return e
		}
	}
	return library(name)
}

// isName reports whether a token can be a name.
func isName(t lex.Token) bool { return t.Kind == lex.Ident && !keywords[t.Text] }

func splitWords(s string) []string { return strings.Fields(s) }

// keywords can't be names.
var keywords = words(`alignas alignof asm auto bool break case catch char class const constexpr consteval const_cast continue decltype
	default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
	namespace new noexcept nullptr operator private protected public register reinterpret_cast return short signed sizeof static
	static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union unsigned using
	virtual void volatile while
	kernel vertex fragment thread device constant threadgroup threadgroup_imageblock ray_data object_data
	__attribute__ __attribute __extension__ __restrict __restrict__ __inline __inline__ __asm __asm__ __alignof__ __alignof __decltype
	_Static_assert __volatile__ __const__ __signed__`)

// basicWords are the words of a BasicType.
var basicWords = words("void bool char short int long float double signed unsigned __signed__")

// spaceWords are the address spaces.
var spaceWords = words("thread device constant threadgroup threadgroup_imageblock ray_data object_data")

// specifierWords start a declaration wherever they stand.
var specifierWords = words(`const constexpr consteval volatile static extern inline __inline __inline__ typedef register mutable
	friend virtual explicit thread_local auto struct class union enum typename kernel vertex fragment alignas __restrict __restrict__
	__volatile__ __const__`)

// library tells what the language's library declares under a name.
func library(name string) entry {
	if k, ok := libraryNames[name]; ok {
		e := entry{kind: k}
		if k == namespaceName {
			e.in = librarySpace
		}
		return e
	}
	return entry{}
}

// librarySpace stands for metal and all namespaces in it.
var librarySpace = &scope{}

// qualified finds a name in a namespace or record.
func qualified(in *scope, name string) entry {
	if in == nil {
		return entry{}
	}
	if e, ok := in.find(name); ok {
		return e
	}
	if in == librarySpace {
		return library(name)
	}
	return entry{}
}

// libraryNames are the types, templates and namespaces of the library. Functions
// that are called without template arguments need no entry.
var libraryNames = func() map[string]nameKind {
	m := map[string]nameKind{}
	put := func(k nameKind, names string) {
		for _, n := range splitWords(names) {
			m[n] = k
		}
	}
	put(namespaceName, "metal fast precise simd raytracing mpp tensor_ops std")
	put(typeName, `half bfloat uchar ushort uint ulong size_t ptrdiff_t int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t
		intptr_t uintptr_t nullptr_t float16_t bfloat16_t sampler event atomic_int atomic_uint atomic_bool atomic_ulong atomic_float atomic_flag
		memory_order mem_flags thread_scope memory_order_t access true_type false_type simd_vote quad_vote command_buffer
		compute_pipeline_state render_pipeline_state compute_command render_command intersector_base acceleration_structure
		matmul2d_descriptor execution_simdgroup execution_thread cooperative_tensor_t`)
	put(typeTemplate, `vec matrix packed_vec simdgroup_matrix array array_ref atomic numeric_limits uniform patch_control_point imageblock
		texture1d texture1d_array texture2d texture2d_array texture3d texturecube texturecube_array texture2d_ms texture_buffer
		depth2d depth2d_array depthcube depthcube_array depth2d_ms tensor tensor_handle tensor_inline tensor_offset dextents extents
		cooperative_tensor matmul2d execution_simdgroups remainder
		integral_constant bool_constant enable_if enable_if_t conditional conditional_t is_same is_integral is_floating_point is_arithmetic
		is_signed is_unsigned is_pointer is_array is_const is_void is_scalar is_class is_enum is_union is_function is_reference
		is_convertible is_base_of is_trivially_copyable is_constructible is_empty rank extent remove_cv remove_cv_t remove_const
		remove_const_t remove_volatile remove_volatile_t remove_reference remove_reference_t remove_pointer remove_pointer_t
		remove_extent remove_extent_t remove_addrspace remove_addrspace_t add_const add_const_t add_pointer add_pointer_t decay decay_t
		make_signed make_signed_t make_unsigned make_unsigned_t underlying_type underlying_type_t common_type common_type_t
		void_t conjunction disjunction negation tuple pair initializer_list integer_sequence index_sequence make_index_sequence
		make_integer_sequence vec_elements _numeric_limits_impl is_vector is_matrix make_vector make_scalar make_scalar_t
		visible_function_table intersection_function_table intersector intersection_result interpolant`)
	put(valueTemplate, `as_type is_same_v is_integral_v is_floating_point_v is_arithmetic_v is_signed_v is_unsigned_v is_pointer_v is_array_v
		is_const_v is_void_v is_scalar_v is_class_v is_enum_v is_function_v is_reference_v is_convertible_v is_base_of_v is_empty_v
		is_constructible_v is_vector_v is_matrix_v rank_v extent_v conjunction_v disjunction_v negation_v
		make_uniform make_filled_simdgroup_matrix make_filled_simdgroup_matrix make_diagonal_simdgroup_matrix declval get
		atomic_load_explicit atomic_store_explicit __is_valid_simdgroup_type`)
	for _, t := range splitWords("bool char uchar short ushort int uint long ulong half bfloat float") {
		for n := '2'; n <= '4'; n++ {
			m[t+string(n)] = typeName
			m["packed_"+t+string(n)] = typeName
		}
	}
	for _, t := range splitWords("half bfloat float") {
		for c := '2'; c <= '4'; c++ {
			for r := '2'; r <= '4'; r++ {
				m[t+string(c)+"x"+string(r)] = typeName
			}
		}
		m["simdgroup_"+t+"8x8"] = typeName
	}
	return m
}()
