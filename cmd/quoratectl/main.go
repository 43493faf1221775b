// Command quoratectl looks at a quorate cluster and changes its rules and
// regions.
//
// It speaks the Admin service of the coordinator. Every command takes
// -o table|json|yaml; the field names of JSON and YAML are an interface.
package main

import (
	"os"

	"github.com/quorate/quorate/cmd/internal/cli"
)

func main() { os.Exit(cli.Main(newRoot())) }
