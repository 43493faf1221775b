package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// hunterPackage is the program that sweeps.
const hunterPackage = "./sim/mutants/hunter"

// testTimeout bounds a test that a mutant may have made hang.
const testTimeout = 2 * time.Minute

// Trace is what a hunter prints: the first broken promise, the zero Trace when
// none was.
type Trace struct {
	Seed    uint64 `json:"seed"`
	Promise string `json:"promise"`
	What    string `json:"what"`
}

// Hunt builds mutants from the source tree and hunts them. Close it after use.
type Hunt struct {
	root  string
	dir   string
	seeds int
	sound string // the hunter built from the code as it is
}

// Open prepares a hunt with at most so many seeds per mutant. It needs the source
// tree around the working directory, and the go command.
func Open(ctx context.Context, seeds int) (*Hunt, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "quorate-mutants-")
	if err != nil {
		return nil, fmt.Errorf("open hunt: %w", err)
	}
	h := &Hunt{root: root, dir: dir, seeds: seeds}
	h.sound, err = h.build(ctx, "sound", hunterPackage, "")
	if err != nil {
		_ = h.Close()
		return nil, err
	}
	return h, nil
}

// Close removes what the hunt has built.
func (h *Hunt) Close() error {
	if err := os.RemoveAll(h.dir); err != nil {
		return fmt.Errorf("close hunt: %w", err)
	}
	return nil
}

// Mutant hunts one mutant. An error says that the hunt itself failed; a mutant
// that was not found is a Finding.
func (h *Hunt) Mutant(ctx context.Context, m Mutant) (Finding, error) {
	dir, err := os.MkdirTemp(h.dir, "mutant-")
	if err != nil {
		return Finding{}, fmt.Errorf("hunt %s: %w", m.Name, err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // Close removes what is left
	edits, err := overlay(h.root, dir, m)
	if err != nil {
		return Finding{}, err
	}
	f := Finding{Mutant: m.Name}
	if m.Test.Name != "" {
		f.Found, err = h.test(ctx, dir, m.Test, edits)
		if f.Found {
			f.Checker = m.Test.Name
		}
	} else {
		var trace Trace
		trace, err = h.sweep(ctx, dir, edits)
		f.Found, f.Checker, f.Seeds = trace.Promise != "", trace.Promise, int(trace.Seed)
	}
	if err != nil {
		return Finding{}, fmt.Errorf("hunt %s: %w", m.Name, err)
	}
	return f, nil
}

// sweep runs random worlds with the edits, and the one that broke a promise once
// more without them.
func (h *Hunt) sweep(ctx context.Context, dir, edits string) (Trace, error) {
	program, err := h.build(ctx, filepath.Join(dir, "hunter"), hunterPackage, edits)
	if err != nil {
		return Trace{}, err
	}
	found, err := h.runHunter(ctx, program, 1, h.seeds)
	if err != nil || found.Promise == "" {
		return found, err
	}
	sound, err := h.runHunter(ctx, h.sound, found.Seed, 1)
	if err == nil && sound.Promise != "" {
		err = fmt.Errorf("the code without the bug breaks %s at seed %d as well: %s", sound.Promise, sound.Seed, sound.What)
	}
	return found, err
}

func (h *Hunt) runHunter(ctx context.Context, program string, first uint64, seeds int) (t Trace, err error) {
	out, err := h.command(ctx, h.root, program, "-first", strconv.FormatUint(first, 10), "-seeds", strconv.Itoa(seeds))
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal(out, &t); err != nil {
		return t, fmt.Errorf("read trace: %w", err)
	}
	return t, nil
}

// test runs a test with the edits, which must fail, and without, which must pass.
func (h *Hunt) test(ctx context.Context, dir string, t Test, edits string) (found bool, err error) {
	for _, with := range []string{"", edits} {
		program, err := h.build(ctx, filepath.Join(dir, "test"), "./"+t.Package, with, "test", "-c")
		if err != nil {
			return false, err
		}
		out, err := h.command(ctx, filepath.Join(h.root, filepath.FromSlash(t.Package)), program,
			"-test.v", "-test.run", "^"+t.Name+"$", "-test.timeout", testTimeout.String())
		passed, failed := strings.Contains(string(out), "--- PASS: "+t.Name), strings.Contains(string(out), "--- FAIL: "+t.Name)
		switch {
		case !passed && !failed:
			return false, fmt.Errorf("%s neither passed nor failed: %w", t.Name, errors.Join(err, fmt.Errorf("it printed %q", out)))
		case with == "" && failed:
			return false, fmt.Errorf("%s fails without the bug as well:\n%s", t.Name, out)
		case with != "":
			found = failed
		}
	}
	return found, nil
}
