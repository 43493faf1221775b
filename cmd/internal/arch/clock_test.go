package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// wallClock lists what turns a time.Time into a reading of the wall clock. A
// difference of two times that were taken with time.Now is monotonic.
var wallClock = []string{"Unix", "UnixMilli", "UnixMicro", "UnixNano"}

func wallClocks(t *testing.T, file string, src any) (found []string) {
	t.Helper()
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(wallClock, s.Sel.Name) {
			found = append(found, fmt.Sprintf("%s: %s reads or makes a wall clock time", set.Position(n.Pos()), s.Sel.Name))
		}
		return true
	})
	return found
}

// K81: a wall clock that steps on the leader, by an hour in either direction,
// ends no session and gives nothing away twice: nothing of the coordinator reads
// it. (What a step on an agent does is in regional/lease/testdata.)
func TestK81TheCoordinatorReadsNoWallClock(t *testing.T) {
	if have := wallClocks(t, "x.go", `package x; import "time"; var a, b = time.Now().UnixNano(), time.Unix(1, 0)`); len(have) != 2 {
		t.Fatalf("the test of the test: have %q", have)
	}
	all := load(t)
	files := 0
	for _, name := range ours(all) {
		if !within(name, "coordinator") {
			continue
		}
		for _, f := range all[name].GoFiles {
			files++
			for _, problem := range wallClocks(t, filepath.Join(all[name].Dir, f), nil) {
				t.Error(problem)
			}
		}
	}
	if files == 0 {
		t.Error("no files of the coordinator")
	}
}
