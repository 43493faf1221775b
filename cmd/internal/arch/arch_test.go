package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// pkg is what `go list` says about a package, without its tests.
type pkg struct {
	ImportPath string
	Dir        string
	Standard   bool
	GoFiles    []string
	Imports    []string
	Deps       []string
}

// packages returns ours and all that they depend on, by import path. The path
// of one of ours is relative to the module.
var packages = sync.OnceValues(func() (map[string]pkg, error) {
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Dir,Standard,GoFiles,Imports,Deps", module+"...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}
	all := map[string]pkg{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all[strings.TrimPrefix(p.ImportPath, module)] = p
	}
})

func load(t *testing.T) map[string]pkg {
	t.Helper()
	all, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ours returns the packages of this module, in order.
func ours(all map[string]pkg) []string {
	var names []string
	for name, p := range all {
		if strings.HasPrefix(p.ImportPath, module) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// within reports whether name is dir or below it.
func within(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// in returns the entry of list that name is within, empty if there is none.
func in(name string, list []string) string {
	for _, dir := range list {
		if within(name, dir) {
			return dir
		}
	}
	return ""
}

func TestPurePackagesImportOnlyPureThings(t *testing.T) {
	all := load(t)
	for name, extra := range pure {
		p, ok := all[name]
		if !ok || len(p.GoFiles) == 0 {
			t.Errorf("%s is missing", name)
			continue
		}
		for _, i := range p.Imports {
			short := strings.TrimPrefix(i, module)
			_, isPure := pure[short]
			switch {
			case isPure, slices.Contains(extra, i), i == "math/rand/v2":
			case all[short].Standard && in(i, impure) == "" && i != "C":
			default:
				t.Errorf("%s is pure and imports %s", name, i)
			}
		}
	}
}

func TestPurePackagesHaveNoClockAndNoGoroutine(t *testing.T) {
	all := load(t)
	for name := range pure {
		for _, f := range all[name].GoFiles {
			for _, problem := range impurities(t, filepath.Join(all[name].Dir, f), nil) {
				t.Error(problem)
			}
		}
	}
}

// impurities returns what a file does that a pure package may not. The text is
// read from src if it is not nil.
func impurities(t *testing.T, file string, src any) (found []string) {
	t.Helper()
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{} // local name -> import path
	for _, i := range tree.Imports {
		full := strings.Trim(i.Path.Value, `"`)
		local := path.Base(strings.TrimSuffix(full, "/v2"))
		if i.Name != nil {
			local = i.Name.Name
		}
		names[local] = full
		if local == "." {
			found = append(found, fmt.Sprintf("%s: dot import of %s", set.Position(i.Pos()), full))
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, fmt.Sprintf("%s: a pure package starts a goroutine", set.Position(n.Pos())))
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && slices.Contains(impureCalls[names[x.Name]], n.Sel.Name) {
				found = append(found, fmt.Sprintf("%s: a pure package uses %s.%s", set.Position(n.Pos()), names[x.Name], n.Sel.Name))
			}
		}
		return true
	})
	return found
}

// The test of the test: it must see what it forbids.
func TestImpuritiesAreFound(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       int
	}{
		{"a clock", `import "time"; var _ = time.Now()`, 1},
		{"a clock handed on as a value", `import "time"; var now = time.Now`, 1},
		{"a clock under another name", `import clock "time"; func f() { clock.Sleep(1) }`, 1},
		{"a goroutine", `func f() { go f() }`, 1},
		{"the global source", `import "math/rand/v2"; var _ = rand.IntN(3)`, 1},
		{"a deadline", `import "context"; func f(c context.Context) { context.WithTimeout(c, 1) }`, 1},
		{"a source that was passed in", `import "math/rand/v2"; func f(r *rand.Rand) int { return r.IntN(3) }`, 0},
		{"durations", `import "time"; const d = 3 * time.Second`, 0},
	} {
		if have := impurities(t, "x.go", "package x; "+c.body); len(have) != c.want {
			t.Errorf("%s: have %q, want %d", c.name, have, c.want)
		}
	}
}

func TestAdaptersDoNotImportAdapters(t *testing.T) {
	all := load(t)
	for _, name := range ours(all) {
		self := in(name, adapters)
		if self == "" {
			continue
		}
		for _, i := range all[name].Imports {
			if other := in(strings.TrimPrefix(i, module), adapters); other != "" && other != self {
				t.Errorf("%s imports the adapter %s", name, other)
			}
		}
	}
	for _, a := range adapters {
		if _, ok := all[a]; !ok {
			t.Errorf("the adapter %s is missing", a)
		}
	}
}

func TestImportsPointDown(t *testing.T) {
	all := load(t)
	for _, name := range ours(all) {
		for _, i := range all[name].Imports {
			to, isOurs := strings.CutPrefix(i, module)
			if !isOurs {
				continue
			}
			var bad bool
			switch top, _, _ := strings.Cut(name, "/"); top {
			case "coordinator":
				bad = in(to, []string{"regional", "sim", "cmd", "deployments"}) != ""
			case "regional":
				bad = in(to, []string{"sim", "cmd", "deployments"}) != "" ||
					within(to, "coordinator") && in(to, []string{"coordinator/quota", "coordinator/rules"}) == ""
			case "proto":
				bad = in(to, []string{"proto", "coordinator/quota"}) == ""
			case "sim":
				bad = in(to, []string{"cmd", "deployments"}) != ""
			}
			if bad {
				t.Errorf("%s imports %s", name, to)
			}
		}
	}
}

func TestGeneratedTypesStopAtAdapters(t *testing.T) {
	all := load(t)
	for _, name := range ours(all) {
		for _, i := range all[name].Imports {
			if to := strings.TrimPrefix(i, module); within(to, "proto") && to != i && in(name, generated) == "" {
				t.Errorf("%s imports the generated package %s", name, to)
			}
		}
	}
}

func TestBinariesLinkOnlyTheirOwn(t *testing.T) {
	all := load(t)
	for name, banned := range unlinked {
		p, ok := all[name]
		if !ok {
			t.Errorf("%s is missing", name)
			continue
		}
		for _, d := range p.Deps {
			if b := in(d, banned); b != "" {
				t.Errorf("%s links %s, which belongs to %s", name, d, b)
			}
		}
	}
}
