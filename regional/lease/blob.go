package lease

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
)

// blobFormat is the version of the encoding below. Agents of several versions
// share one store, so a change that an older agent would misread needs a new number.
const blobFormat = 1

// blob is a configuration as the region's store keeps it, so that an agent that
// restarts in a cut-off region still serves.
type blob struct {
	Format  int          `json:"format"`
	Version uint64       `json:"version"`
	Sources []blobSource `json:"sources"`
	Shares  []blobShare  `json:"shares"`
	// After is the version this one was adopted after, as the agent that
	// adopted it saw it; 0 for none.
	After uint64 `json:"after"`
	// Grew says that some standing share of the region may be larger than under After.
	Grew bool `json:"grew"`
	// GrownUS is when some standing share last grew, up to and with the adoption
	// of After, on the store's clock; 0 for never.
	GrownUS int64 `json:"grown_us"`
}

type blobSource struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

type blobShare struct {
	Region string `json:"region"`
	Weight int64  `json:"weight"`
}

// Encode makes the record under which the region's store keeps c when it is
// adopted after cur, which is nil when nothing was adopted before. c must parse.
func Encode(c quota.Config, region string, cur *Adoption) ([]byte, error) {
	set, err := rules.Parse(c.Sources)
	if err != nil {
		return nil, fmt.Errorf("encode configuration %d: %w: %w", c.Version, ErrConfig, err)
	}
	b := blob{Format: blobFormat, Version: c.Version, Sources: []blobSource{}, Shares: []blobShare{}}
	for _, s := range c.Sources {
		b.Sources = append(b.Sources, blobSource(s))
	}
	for _, s := range c.Shares {
		b.Shares = append(b.Shares, blobShare(s))
	}
	if cur != nil {
		next := generation{set: set, shares: c.Shares}
		b.After = cur.Version
		b.Grew = next.grew(cur.current, region, cur.Version+1 != c.Version)
		b.GrownUS = int64(cur.grown)
		if cur.grew {
			b.GrownUS = int64(cur.since)
		}
	}
	text, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode configuration %d: %w", c.Version, err)
	}
	return text, nil
}

// Decode returns the configuration in a record made by Encode.
func Decode(text []byte) (quota.Config, error) {
	b, err := decode(text)
	if err != nil {
		return quota.Config{}, err
	}
	return b.config(), nil
}

func decode(text []byte) (blob, error) {
	var b blob
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	err := dec.Decode(&b)
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = fmt.Errorf("data after the record")
		}
	}
	switch {
	case err != nil:
		return blob{}, fmt.Errorf("decode configuration record: %w: %w", ErrConfig, err)
	case b.Format != blobFormat:
		return blob{}, fmt.Errorf("decode configuration record: %w: format %d, this agent reads %d; upgrade it", ErrConfig, b.Format, blobFormat)
	case b.Version == 0:
		return blob{}, fmt.Errorf("decode configuration record: %w: no version", ErrConfig)
	case b.GrownUS < 0:
		return blob{}, fmt.Errorf("decode configuration record: %w: negative time", ErrConfig)
	}
	return b, nil
}

func (b blob) config() quota.Config {
	c := quota.Config{Version: b.Version}
	for _, s := range b.Sources {
		c.Sources = append(c.Sources, quota.Source(s))
	}
	for _, s := range b.Shares {
		c.Shares = append(c.Shares, quota.Share(s))
	}
	return c
}
