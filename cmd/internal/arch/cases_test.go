package arch

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The cases, a K and a number from 01 to 97, are what went wrong in other rate limiters, as
// those who ran them reported it. A grep for its name leads from each to its tests: it is in
// the name of a test, of a play or of a golden file, or in a comment on a test.
func TestEveryCaseIsNamedByATest(t *testing.T) {
	const cases = 97
	root := filepath.Join("..", "..", "..")
	name := regexp.MustCompile(`K[0-9]{2}`)
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && d.Name() != ".." && strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir // what is not the project's own
			}
			return err
		}
		text := d.Name()
		if strings.HasSuffix(path, "_test.go") || filepath.Base(filepath.Dir(path)) == "buckettest" {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(content)
		} else if filepath.Ext(path) != ".txtar" {
			return nil
		}
		for _, k := range name.FindAllString(text, -1) {
			found[k] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range cases {
		if k := fmt.Sprintf("K%02d", i+1); !found[k] {
			t.Errorf("no test names %s", k)
		}
	}
}
