// Command quorate-agent enforces global rate limits in one region: it answers
// Envoy and HTTP clients from the region's Redis, and syncs with the
// coordinator beside the requests, never within them.
package main

import (
	"os"

	"github.com/quorate/quorate/cmd/internal/cli"
)

func main() { os.Exit(cli.Main(command())) }
