package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// overlay writes the edited copies of a mutant's files into dir and returns the
// file that tells the go command to compile them in place of the originals.
func overlay(root, dir string, m Mutant) (string, error) {
	texts, err := mutate(root, m)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, text := range texts {
		edited := filepath.Join(dir, fmt.Sprintf("%d-%s", len(replace), filepath.Base(file)))
		if err := os.WriteFile(edited, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("write mutant %s: %w", m.Name, err)
		}
		replace[filepath.Join(root, filepath.FromSlash(file))] = edited
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("write overlay of %s: %w", m.Name, err)
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		return "", fmt.Errorf("write overlay of %s: %w", m.Name, err)
	}
	return name, nil
}

// mutate returns the edited text of every file that a mutant touches.
func mutate(root string, m Mutant) (map[string]string, error) {
	texts := map[string]string{}
	for _, e := range m.Edits {
		text, ok := texts[e.File]
		if !ok {
			data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File)))
			if err != nil {
				return nil, fmt.Errorf("read source of mutant %s: %w", m.Name, err)
			}
			text = string(data)
		}
		text, err := e.apply(text)
		if err != nil {
			return nil, fmt.Errorf("mutant %s: %w", m.Name, err)
		}
		texts[e.File] = text
	}
	return texts, nil
}
