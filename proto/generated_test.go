// Package proto_test holds the generated code to the .proto files beside it.
package proto_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// buf is what `make proto` runs, too.
const buf = "github.com/bufbuild/buf/cmd/buf@v1.75.0"

// TestGeneratedCodeIsCurrent generates into a scratch folder and compares. A
// field added to a .proto file without `make proto` would compile, and be
// missing on the wire.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	fresh := t.TempDir()
	run(t, "generate", "-o", fresh)
	have, want := generated(t, "."), generated(t, fresh)
	for name, text := range want {
		switch old, ok := have[name]; {
		case !ok:
			t.Errorf("%s is missing; run `make proto`", name)
		case !bytes.Equal(old, text):
			t.Errorf("%s is not what its .proto file says; run `make proto`", name)
		}
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			t.Errorf("%s comes from no .proto file; remove it", name)
		}
	}
}

func TestProtoFilesPassLint(t *testing.T) { run(t, "lint") }

func run(t *testing.T, args ...string) {
	t.Helper()
	// The first run on a machine compiles buf and the plugins.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", buf}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go run %s %s: %v\n%s", buf, strings.Join(args, " "), err, out)
	}
}

// generated returns the generated files under root by their relative names.
func generated(t *testing.T, root string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".pb.go") {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(name)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no generated file under %s", root)
	}
	return files
}
