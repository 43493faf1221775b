package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quorate/quorate/cmd/internal/cli"
	"github.com/quorate/quorate/coordinator/quota"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

// document is one rule document that was named on the command line.
type document struct {
	// name is what the coordinator stores: it does not depend on where the
	// command ran. path is for messages.
	name, path, text string
}

// readDocuments reads files and, from folders, every *.yaml and *.yml below
// them. Names that start with a dot are skipped: a Kubernetes volume has its
// files twice, once behind `..data`.
func readDocuments(paths []string, stdin io.Reader) ([]document, error) {
	if len(paths) == 0 {
		return nil, cli.Fail(cli.Usage, errors.New("no rule document given"), "Give -f FILE or -f DIR, or -f - for standard input.")
	}
	var all []document
	add := func(name, path string) error {
		var text []byte
		var err error
		if path == "-" {
			name, path = "stdin", "stdin"
			text, err = io.ReadAll(stdin)
		} else {
			text, err = os.ReadFile(path)
		}
		if err != nil {
			return fmt.Errorf("read rules: %w", err)
		}
		if i := slices.IndexFunc(all, func(d document) bool { return d.name == name }); i >= 0 {
			return fmt.Errorf("two rule documents are named %s: %s and %s", name, all[i].path, path)
		}
		all = append(all, document{name: name, path: path, text: string(text)})
		return nil
	}
	for _, p := range paths {
		if err := eachFile(p, add); err != nil {
			return nil, cli.Fail(cli.Usage, err, "")
		}
	}
	return all, nil
}

// eachFile calls visit for path itself if it is a file, or for the documents
// below it, in order, with names relative to path.
func eachFile(path string, visit func(name, path string) error) error {
	if path == "-" {
		return visit("", path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("read rules: %w", err)
	}
	if !info.IsDir() {
		return visit(filepath.Base(path), path)
	}
	found := false
	// The folder itself may be a link; WalkDir follows none.
	root, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("read rules: %w", err)
	}
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("read rules: %w", err)
		}
		if file != root && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if ext := filepath.Ext(file); d.IsDir() || ext != ".yaml" && ext != ".yml" {
			return nil
		}
		if info, err := os.Stat(file); err == nil && info.IsDir() { // a link to a folder
			return nil
		}
		found = true
		name, err := filepath.Rel(root, file)
		if err != nil {
			return fmt.Errorf("read rules: %w", err)
		}
		return visit(filepath.ToSlash(name), filepath.Join(path, name))
	})
	if err == nil && !found {
		err = fmt.Errorf("read rules: no *.yaml or *.yml in %s", path)
	}
	return err
}

// forMessages returns the documents under their paths, so that a problem names
// a file that the reader can open.
func forMessages(docs []document) []quota.Source {
	list := make([]quota.Source, len(docs))
	for i, d := range docs {
		list[i] = quota.Source{Name: d.path, Text: d.text}
	}
	return list
}

func forWire(docs []document) []*quoratev1.Source {
	list := make([]*quoratev1.Source, len(docs))
	for i, d := range docs {
		list[i] = &quoratev1.Source{Name: d.name, Text: d.text}
	}
	return list
}

func fromWire(list []*quoratev1.Source) []quota.Source {
	all := make([]quota.Source, len(list))
	for i, s := range list {
		all[i] = quota.Source{Name: s.GetName(), Text: s.GetText()}
	}
	return all
}
