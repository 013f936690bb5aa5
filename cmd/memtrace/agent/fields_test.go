package agent

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Each key of a file is described, with a default that means what a file without the key means, and nothing else is.
func TestFields(t *testing.T) {
	names := make(map[string]bool)
	for _, f := range ConfigFields() {
		names[f.Name] = true
		if f.Text == "" || f.Value == "" || strings.HasSuffix(f.Text, ".") {
			t.Errorf("%s has no text, or one that ends with a full stop: %+v", f.Name, f)
		}
		if f.Default == "" {
			continue
		}
		c, err := ParseConfig(fmt.Appendf(nil, "%s: %s\n", f.Name, f.Default))
		if err != nil || !reflect.DeepEqual(c, Default()) {
			t.Errorf("%s: %s is not its default: %+v, %v", f.Name, f.Default, c, err)
		}
	}
	for name := range configTexts {
		if !names[name] {
			t.Errorf("there is a text for %s, which is no key", name)
		}
	}
	for what, of := range map[string]struct {
		fields []Field
		texts  map[string]fieldText
	}{
		"rule": {RuleFields(), ruleTexts}, "alert": {AlertFields(), alertTexts}, "receiver": {ReceiverFields(), receiverTexts},
		"trace": {TraceFields(), traceTexts},
	} {
		for _, f := range of.fields {
			if f.Text == "" || f.Value == "" {
				t.Errorf("the %s's %s has no text: %+v", what, f.Name, f)
			}
		}
		if len(of.fields) != len(of.texts) {
			t.Errorf("%d texts for %d keys of a %s", len(of.texts), len(of.fields), what)
		}
	}
}

// docs/serve.md lists the same keys, with the same defaults.
func TestServeDocumentHasTheKeys(t *testing.T) {
	text, err := os.ReadFile("../../../docs/serve.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range ConfigFields() {
		row := "| `" + f.Name + "` | `" + f.Default + "` |"
		if f.Default == "" {
			row = "| `" + f.Name + "` | none |"
		}
		if f.Name != "services" && !strings.Contains(string(text), row) { // it has a table of its own
			t.Errorf("docs/serve.md has no row %s", row)
		}
	}
	for _, f := range slices.Concat(RuleFields(), AlertFields(), TraceFields(), ReceiverFields()) {
		if !strings.Contains(string(text), "| `"+f.Name+"` |") && f.Name != "growth" {
			t.Errorf("docs/serve.md has no row of %s", f.Name)
		}
	}
}
