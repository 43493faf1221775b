package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/quorate/quorate/cmd/internal/cli"
)

// update rewrites the golden texts in testdata: go test ./cmd/quoratectl -update.
var update = flag.Bool("update", false, "rewrite the golden texts of the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"quoratectl": main})
}

// TestScripts runs each script against a fake cluster of its own, whose
// addresses are in $N1, $N2 and $N3. The command `fake` changes the cluster.
func TestScripts(t *testing.T) {
	type key struct{}
	testscript.Run(t, testscript.Params{
		Dir: "testdata", UpdateScripts: *update, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			c, err := startCluster()
			if err != nil {
				return err
			}
			e.Defer(c.close)
			e.Values[key{}] = c
			for name, n := range c.nodes {
				e.Setenv(strings.ToUpper(name), n.address)
			}
			// A program under the race detector sleeps a second before it exits.
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			e.Setenv("QUORATE_ENDPOINTS", strings.Join(c.endpoints(), ","))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"fake": func(ts *testscript.TestScript, _ bool, args []string) {
				if err := ts.Value(key{}).(*fakeCluster).set(args[0], args[1:]...); err != nil {
					ts.Fatalf("%v", err)
				}
			},
			// exits N CMD… requires the exit code N, which `! exec` does not tell.
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				want := args[0]
				err := ts.Exec(args[1], args[2:]...)
				have := "exit status 0"
				if err != nil {
					have = err.Error()
				}
				if have != "exit status "+want {
					ts.Fatalf("have %s, want exit status %s", have, want)
				}
			},
		},
	})
}

// TestEveryCommandPrintsJSONAndYAML walks the tree, so that a new command
// cannot forget it.
func TestEveryCommandPrintsJSONAndYAML(t *testing.T) {
	args := map[string][]string{
		"rules apply": {"-f", "-"}, "rules diff": {"-f", "-"}, "rules validate": {"-f", "-"},
		"regions add": {"sa"}, "regions drain": {"us"}, "regions rm": {"us"}, "explain": {"--domain", "api", "user=alice"},
	}
	c, err := startCluster()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	leaves := 0
	var walk func(*cobra.Command, []string)
	walk = func(cmd *cobra.Command, path []string) {
		for _, child := range cmd.Commands() {
			walk(child, append(path[:len(path):len(path)], child.Name()))
		}
		// The shell completion prints programs, and help prints help.
		if cmd.HasSubCommands() || len(path) > 0 && (path[0] == "completion" || path[0] == "help") {
			return
		}
		leaves++
		for format, valid := range map[string]func([]byte, any) error{"json": json.Unmarshal, "yaml": yaml.Unmarshal} {
			var out, stderr bytes.Buffer
			root := newRoot()
			root.SetIn(strings.NewReader(firstRules))
			line := append(path[:len(path):len(path)], args[strings.Join(path, " ")]...)
			line = append(line, "-o", format, "--endpoints", strings.Join(c.endpoints(), ","))
			code := cli.Run(t.Context(), root, line, &out, &stderr)
			var v map[string]any
			if err := valid(out.Bytes(), &v); err != nil || len(v) == 0 || code > cli.No {
				t.Errorf("%s: exit code %d, %v\n%s%s", strings.Join(line, " "), code, err, out.String(), stderr.String())
			}
		}
	}
	walk(newRoot(), nil)
	if leaves < 12 {
		t.Errorf("the walk found only %d commands", leaves)
	}
}
