package redisbucket

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1.
	_ "embed"
	"encoding/hex"
	"strings"
)

// A bare shebang: the script declares all its keys, and a server out of memory
// refuses it before it has run instead of in the middle. It takes Redis 7.
const (
	writes = "#!lua\n"
	reads  = "#!lua flags=no-writes\n"
)

var (
	//go:embed scripts/prelude.lua
	preludeSource string
	//go:embed scripts/bucket.lua
	bucketSource string
	//go:embed scripts/window.lua
	windowSource string
	//go:embed scripts/take.lua
	takeSource string
	//go:embed scripts/charge.lua
	chargeSource string
	//go:embed scripts/apply.lua
	applySource string
	//go:embed scripts/incarnate.lua
	incarnateSource string
	//go:embed scripts/state.lua
	stateSource string
	//go:embed scripts/renew.lua
	renewSource string
	//go:embed scripts/drop.lua
	dropSource string
	//go:embed scripts/adopt.lua
	adoptSource string
	//go:embed scripts/config.lua
	configSource string
	//go:embed scripts/first.lua
	firstSource string
	//go:embed scripts/lend.lua
	lendSource string
	//go:embed scripts/lent.lua
	lentSource string

	// For a cluster (cluster.go).
	//go:embed scripts/here.lua
	hereSource string
	//go:embed scripts/arrive.lua
	arriveSource string
	//go:embed scripts/part.lua
	partSource string
	//go:embed scripts/seal.lua
	sealSource string
	//go:embed scripts/version.lua
	versionSource string
	//go:embed scripts/refund.lua
	refundSource string
)

// script is one operation as Redis knows it.
type script struct {
	name   string
	source string
	sha    string
}

// scripts are all operations.
type scripts struct {
	take, charge, apply, lend, lent                     script
	incarnate, state, renew, drop, adopt, config, first script
	// In a cluster only; state is read by part there.
	part, seal, version, refund script
}

// build assembles the scripts. edit is applied to every source: the embedded
// store cannot read a shebang, and tests put their own clock in.
// In a cluster a script works on one partition.
func build(inCluster bool, edit func(source string) string) scripts {
	one := func(name, flags string, parts ...string) script {
		source := edit(flags + strings.Join(parts, "\n"))
		sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
		return script{name: name, source: source, sha: hex.EncodeToString(sum[:])}
	}
	// Keys of one request may be on servers apart: see takeApart.
	here, arrive, apart := "", "", "local apart = false"
	if inCluster {
		here, arrive, apart = hereSource, arriveSource, "local apart = true"
	}
	sc := scripts{
		take:      one("take", writes, preludeSource, here, bucketSource, windowSource, apart, takeSource),
		charge:    one("charge", writes, preludeSource, here, bucketSource, windowSource, chargeSource),
		apply:     one("apply", writes, preludeSource, here, bucketSource, windowSource, applySource),
		lend:      one("lend", writes, preludeSource, here, bucketSource, lendSource),
		lent:      one("lent", writes, preludeSource, here, lentSource),
		incarnate: one("incarnate", writes, preludeSource, arrive, incarnateSource),
		state:     one("state", writes, preludeSource, stateSource),
		renew:     one("renew", writes, preludeSource, here, renewSource),
		drop:      one("drop", writes, preludeSource, here, dropSource),
		adopt:     one("adopt", writes, preludeSource, here, adoptSource),
		config:    one("config", reads, preludeSource, here, configSource),
		first:     one("first", writes, preludeSource, here, firstSource),
	}
	if inCluster {
		sc.part = one("part", writes, preludeSource, partSource)
		sc.seal = one("seal", writes, preludeSource, sealSource)
		sc.version = one("version", writes, preludeSource, here, versionSource)
		sc.refund = one("refund", writes, preludeSource, here, bucketSource, windowSource, refundSource)
	}
	return sc
}

func (s *scripts) all() []*script {
	list := []*script{
		&s.take, &s.charge, &s.apply, &s.lend, &s.lent, &s.incarnate, &s.state,
		&s.renew, &s.drop, &s.adopt, &s.config, &s.first,
	}
	if s.part.source != "" {
		list = append(list, &s.part, &s.seal, &s.version, &s.refund)
	}
	return list
}

// stripShebang removes the first line, where it is one.
func stripShebang(source string) string {
	if strings.HasPrefix(source, "#!") {
		_, source, _ = strings.Cut(source, "\n")
	}
	return source
}
