// Command quorate-coordinator is one node of the coordinator: three or five of
// them hold, through Raft, who may spend how much of every global limit.
package main

import (
	"os"

	"github.com/quorate/quorate/cmd/internal/cli"
)

func main() { os.Exit(cli.Main(command())) }
