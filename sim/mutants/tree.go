package mutants

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const module = "github.com/quorate/quorate"

// ErrNoTree: mutants are made of source code, and there is none here.
var ErrNoTree = errors.New("mutants are built from the source code of " + module + " and need the go command")

// moduleRoot returns the directory of this module's go.mod.
func moduleRoot(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOMOD")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: go env GOMOD: %w", ErrNoTree, err)
	}
	file := strings.TrimSpace(string(out))
	if file == "" || file == os.DevNull {
		return "", fmt.Errorf("%w: the working directory is in no Go module", ErrNoTree)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoTree, err)
	}
	if !bytes.HasPrefix(text, []byte("module "+module+"\n")) {
		return "", fmt.Errorf("%w: %s is of another module", ErrNoTree, file)
	}
	return filepath.Dir(file), nil
}

// build compiles a package with the edits of an overlay file, "" for none, and
// returns the program. verb is `build` unless it says otherwise.
func (h *Hunt) build(ctx context.Context, name, pkg, edits string, verb ...string) (string, error) {
	program := name
	if !filepath.IsAbs(name) {
		program = filepath.Join(h.dir, name)
	}
	if len(verb) == 0 {
		verb = []string{"build"}
	}
	args := append(verb, "-buildvcs=false", "-o", program)
	if edits != "" {
		args = append(args, "-overlay", edits)
	}
	_, err := h.command(ctx, h.root, "go", append(args, pkg)...)
	return program, err
}

// command runs a program in a directory and returns what it printed. An error
// holds what it said of it.
func (h *Hunt) command(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return out.Bytes(), fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, strings.TrimSpace(talk.String()))
	}
	return out.Bytes(), nil
}
