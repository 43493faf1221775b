package logging

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestFormats(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want string // part of the line
		bad  string // part of the error
	}{
		{"no terminal means plain text", Default(), `level=INFO msg="region cut off" region=eu`, ""},
		{"level and format ignore case", Options{Level: "INFO", Format: "Text"}, "region=eu", ""},
		{"json has one object a line", Options{Level: "info", Format: "json"}, `"region":"eu"`, ""},
		{"below the level nothing is logged", Options{Level: "warn", Format: "text"}, "", ""},
		{"an unknown level is named", Options{Level: "loud", Format: "text"}, "", `log_level: "loud"`},
		{"an unknown format is named", Options{Level: "info", Format: "xml"}, "", `log_format: "xml"`},
	} {
		var b bytes.Buffer
		log, err := New(&b, c.o)
		if c.bad != "" {
			if err == nil || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%s: have error %v, want %q", c.name, err, c.bad)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		log.Info("region cut off", "region", "eu")
		if have := b.String(); !strings.Contains(have, c.want) || c.want == "" && have != "" {
			t.Errorf("%s: have %q, want %q", c.name, have, c.want)
		}
		if c.o.Format == "json" && !json.Valid(b.Bytes()) {
			t.Errorf("%s: not JSON: %s", c.name, b.String())
		}
	}
}

func TestNoColourOffATerminal(t *testing.T) {
	if Terminal(&bytes.Buffer{}) || Colour(&bytes.Buffer{}) {
		t.Error("a buffer is taken for a terminal")
	}
}
