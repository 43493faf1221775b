package rules

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/quorate/quorate/coordinator/quota"
)

var update = flag.Bool("update", false, "rewrite the golden files from what the code does now")

// Each archive is one set of documents; its file "want" is the error of Parse. K38 and
// K39: a key that nobody knows. K40 and K41: what is there twice. K44: a bad number.
func TestProblems(t *testing.T) {
	golden(t, "testdata/problems/*.txtar", func(t *testing.T, sources []quota.Source) string {
		_, err := Parse(sources)
		if err == nil {
			return "no problem\n"
		}
		for _, p := range err.(Problems) {
			if p.Key == "" && p.Line > 1 && p.Col > 1 {
				t.Logf("no key in %v", p)
			}
		}
		return err.Error() + "\n"
	})
}

// golden calls have with the documents of each archive and compares the result
// with the archive's file "want".
func golden(t *testing.T, glob string, have func(*testing.T, []quota.Source) string) {
	names, err := filepath.Glob(glob)
	if err != nil || len(names) == 0 {
		t.Fatalf("find %s: %v, %d files", glob, err, len(names))
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatalf("read archive: %v", err)
			}
			var sources []quota.Source
			var want *txtar.File
			for i, f := range archive.Files {
				if f.Name == "want" {
					want = &archive.Files[i]
					continue
				}
				sources = append(sources, quota.Source{Name: f.Name, Text: string(f.Data)})
			}
			result := have(t, sources)
			if *update {
				if want == nil {
					archive.Files = append(archive.Files, txtar.File{Name: "want"})
					want = &archive.Files[len(archive.Files)-1]
				}
				want.Data = []byte(result)
				if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
					t.Fatalf("write archive: %v", err)
				}
				return
			}
			if want == nil || string(want.Data) != result {
				t.Errorf("%s differs; run go test -update and read the difference\nhave:\n%s\nwant:\n%s", name, result, want.Data)
			}
		})
	}
}
