package output

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

type result struct {
	Name    string   `json:"name"`
	Weight  int64    `json:"weight"`
	Big     int64    `json:"big"`
	Text    string   `json:"text"`
	Regions []string `json:"regions"`
	Odd     string   `json:"odd"`
}

func TestFormats(t *testing.T) {
	v := result{Name: "eu", Weight: 2, Big: 1<<53 - 1, Text: "a: b\nc\n", Regions: []string{}, Odd: "true"}
	for _, c := range []struct {
		f    Format
		want string
	}{
		{Table, "NAME  WEIGHT\neu    2\nus    -\n"},
		{JSON, "{\n  \"name\": \"eu\",\n  \"weight\": 2,\n  \"big\": 9007199254740991,\n  \"text\": \"a: b\\nc\\n\",\n  \"regions\": [],\n  \"odd\": \"true\"\n}\n"},
		{YAML, "name: eu\nweight: 2\nbig: 9007199254740991\ntext: |\n  a: b\n  c\nregions: []\nodd: \"true\"\n"},
	} {
		var b bytes.Buffer
		err := Write(&b, c.f, v, func(w io.Writer) error {
			return Columns(w, []string{"NAME", "WEIGHT"}, [][]string{{"eu", "2"}, {"us", ""}})
		})
		if err != nil || b.String() != c.want {
			t.Errorf("%s: %v\nhave %s\nwant %s", c.f, err, b.String(), c.want)
		}
	}
}

func TestUnknownFormatIsRefused(t *testing.T) {
	f := JSON
	if err := f.Set("xml"); err == nil || f != JSON {
		t.Errorf("have %v, %s", err, f)
	}
}

func TestAFailedTableIsAnError(t *testing.T) {
	broken := errors.New("pipe closed")
	if err := Write(io.Discard, Table, nil, func(io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("have %v", err)
	}
}

func TestCellsCannotSteerTheTerminal(t *testing.T) {
	var b bytes.Buffer
	if err := Columns(&b, nil, [][]string{{"a\x1b[2Jb\tc\n", "é"}}); err != nil || b.String() != "a?[2Jb?c?  é\n" {
		t.Errorf("have %q, %v", b.String(), err)
	}
}
