package swift

// kind is what a node of the tree stands for.
type kind uint8

const (
	kNone kind = iota
	// names
	kIdentifier
	kPrefix // operators
	kPostfix
	kInfix
	kLocal   // kid 0 the name, index
	kPrivate // kid 0 the discriminator, kid 1 the name, if any
	kRelated
	// contexts
	kModule
	kClass
	kStruct
	kEnum
	kProtocol
	kAlias
	kExtension // module, type, signature or none
	kFunction  // entities: context; name, labels and type are fields
	kVariable
	kSubscript
	kAccessor // of kid 0, a variable or a subscript; text says which
	kConstructor
	kAllocator
	kDestructor
	kDeallocator
	kClosure
	kImplicitClosure
	kInitializer
	kDefaultArgument
	kWrapper
	kStatic
	// types
	kType // around each of the following
	kBuiltin
	kBound // the generic type, kTypeList
	kTypeList
	kTuple
	kElement // type; text is its label, variadic by index
	kFunctionType
	kParam  // generic parameter: index, depth
	kMember // type, protocol or none; text
	kMeta   // text is the suffix
	kProtocols
	kPrefixed // a type after text: inout, weak, …
	kSome
	kOpaqueOf
	kOpaque
	kGeneric // signature, type
	kImpl    // a function type of the intermediate language: text, kids are kConvention
	kConvention
	// pieces
	kSignature
	kRequirement
	kEmpty
	kFirst
	kVariadic
	kAnnotation // of a function type; kid 0 its type, if any
	kLabels
	kConformance
	kConformanceRef
	kRetroactive
	// what is said of entities
	kAttribute // text stands before all else
	kForwarder
	kOf // text, then kid 0
	kThunk
	kWitness
	kSuffix
)

// node is a part of the tree. A node may have several parents, as names refer back.
type node struct {
	kind         kind
	text         string
	index, depth int
	kids         []*node

	// of entities and function types
	name, labels, typ *node
	notes             []*node // kAnnotation
}

func (n *node) is(kinds ...kind) bool {
	for _, k := range kinds {
		if n.kind == k {
			return true
		}
	}
	return false
}

func isName(n *node) bool { return n.kind >= kIdentifier && n.kind <= kRelated }

func isContext(n *node) bool { return n.kind >= kModule && n.kind <= kStatic }

func isNominal(n *node) bool { return n.kind >= kClass && n.kind <= kAlias }

func isEntity(n *node) bool { return isContext(n) || n.kind == kType }

// bare is the type without the node around it.
func (n *node) bare() *node {
	for n.kind == kType {
		n = n.kids[0]
	}
	return n
}

func typeOf(n *node) *node { return &node{kind: kType, kids: []*node{n}} }
