package render

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/memtrace/memtrace/analyzer/report"
)

var updateSchema = flag.Bool("update-schema", false, "write docs/schema from the types")

const schemaFile = "../../docs/schema/memtrace.report-1.json"

// The schema that docs/ has is that of the types, with their comments.
func TestSchemaIsThatOfTheTypes(t *testing.T) {
	got := schemaText(t, newSchemaOf(t, true))
	if *updateSchema {
		if err := os.WriteFile(schemaFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/schema/memtrace.report-1.json is not what the types say: go test ./analyzer/render -run Schema -update-schema writes it")
	}
}

// Each Report that a golden file is of fulfils the schema, and has no field that the schema lacks.
func TestReportsFulfilTheSchema(t *testing.T) {
	public, closed := compileSchema(t, newSchemaOf(t, true)), compileSchema(t, newSchemaOf(t, false))
	for name, r := range fixtures() {
		var out bytes.Buffer
		if err := Write(&out, r, Options{Format: JSON}); err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(&out)
		if err != nil {
			t.Fatal(err)
		}
		for what, schema := range map[string]*jsonschema.Schema{"the schema": public, "all fields of the schema": closed} {
			if err := schema.Validate(doc); err != nil {
				t.Errorf("%s does not fulfil %s: %v", name, what, err)
			}
		}
	}
}

// What is no Report does not pass for one.
func TestSchemaRefusesOthers(t *testing.T) {
	schema := compileSchema(t, newSchemaOf(t, true))
	for _, text := range []string{"{}", "[]", `{"schema":"memtrace.diff/1"}`, `{"schema":"memtrace.report/1","final":1}`} {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if schema.Validate(doc) == nil {
			t.Errorf("%s passes", text)
		}
	}
}

// A schemaOf makes the JSON Schema (2020-12) of Go types.
type schemaOf struct {
	comments map[string]string // by TYPE.FIELD, and of types by TYPE
	open     bool              // further fields are allowed
	defs     map[string]any
}

func newSchemaOf(t *testing.T, open bool) map[string]any {
	t.Helper()
	s := &schemaOf{comments: make(map[string]string), open: open, defs: make(map[string]any)}
	for _, dir := range []string{"../report", "../../tracer/event"} {
		s.readComments(t, dir)
	}
	doc := s.object(reflect.TypeFor[report.Report]())
	doc["$schema"], doc["title"], doc["$defs"] = "https://json-schema.org/draft/2020-12/schema", report.Schema, s.defs
	doc["properties"].(map[string]any)["schema"] = map[string]any{"const": report.Schema}
	return doc
}

// readComments reads what is said of the types of a folder and of their fields.
func (s *schemaOf) readComments(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if fields, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range fields.Fields.List {
					for _, id := range field.Names {
						s.comments[spec.Name.Name+"."+id.Name] = strings.Join(strings.Fields(field.Doc.Text()+" "+field.Comment.Text()), " ")
					}
				}
			}
			return false
		})
	}
}

// of is the schema of a type.
func (s *schemaOf) of(typ reflect.Type) map[string]any {
	switch typ.Kind() {
	case reflect.Pointer:
		return s.of(typ.Elem())
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": s.of(typ.Elem())}
	case reflect.Array:
		return map[string]any{"type": "array", "items": s.of(typ.Elem()), "minItems": typ.Len(), "maxItems": typ.Len()}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.of(typ.Elem())}
	case reflect.Struct:
		if _, ok := s.defs[typ.Name()]; !ok {
			s.defs[typ.Name()] = nil // it may hold itself
			s.defs[typ.Name()] = s.object(typ)
		}
		return map[string]any{"$ref": "#/$defs/" + typ.Name()}
	}
	panic("no schema of " + typ.String())
}

// object is the schema of a struct: fields that are left out where they are empty are not required.
func (s *schemaOf) object(typ reflect.Type) map[string]any {
	properties, required := make(map[string]any), []string{}
	s.fields(typ, properties, &required)
	if typ == reflect.TypeFor[report.Group]() { // of a group by size, only these are known
		required = []string{"key", "sites", "alloc_count"}
	}
	out := map[string]any{"type": "object", "properties": properties, "required": required}
	if !s.open {
		out["additionalProperties"] = false
	}
	return out
}

func (s *schemaOf) fields(typ reflect.Type, properties map[string]any, required *[]string) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			s.fields(f.Type, properties, required)
			continue
		}
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		one := s.of(f.Type)
		if text := s.comments[typ.Name()+"."+f.Name]; text != "" {
			one["description"] = text
		}
		properties[name] = one
		if !strings.Contains(options, "omitempty") {
			*required = append(*required, name)
		}
	}
}

func schemaText(t *testing.T, doc map[string]any) []byte {
	t.Helper()
	out, err := EncodeJSON(doc, "  ", false)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func compileSchema(t *testing.T, doc map[string]any) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("report.json", parsed); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("report.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}
