package arch

// module is the path that all our packages start with.
const module = "github.com/quorate/quorate/"

// pure lists the pure packages, each with what it may import beyond the
// standard library and the other pure packages.
var pure = map[string][]string{
	"coordinator/quota":     nil,
	"coordinator/rules":     {"go.yaml.in/yaml/v3"},
	"coordinator/fairshare": nil,
	"coordinator/ledger":    nil,
	"coordinator/planner":   nil,
	"regional/bucket":       nil,
	"regional/demand":       nil,
	"regional/lease":        nil,
	"regional/enforce":      nil,
}

// impure lists what a pure package may not import from the standard library,
// with everything below it: clocks, randomness, loggers, sockets, the process.
var impure = []string{
	"crypto/rand", "database", "expvar", "log", "math/rand", "net", "os", "plugin", "runtime", "syscall", "testing", "unsafe",
}

// impureCalls lists what a pure package may not use of the packages that it may
// import. The functions of math/rand/v2 itself draw from a global source.
var impureCalls = map[string][]string{
	"time": {"Now", "Sleep", "After", "AfterFunc", "Since", "Until", "Tick", "NewTimer", "NewTicker"},
	"math/rand/v2": {
		"Int", "IntN", "Int32", "Int32N", "Int64", "Int64N", "Uint", "UintN", "Uint32", "Uint32N", "Uint64", "Uint64N",
		"N", "Float32", "Float64", "ExpFloat64", "NormFloat64", "Perm", "Shuffle",
	},
	"context": {"WithTimeout", "WithDeadline", "WithTimeoutCause", "WithDeadlineCause"},
}

// adapters lists the packages of one technology each; a package below one
// belongs to it.
var adapters = []string{
	"coordinator/fsm", "coordinator/raftnode", "coordinator/rpc",
	"regional/uplink", "regional/redisbucket", "regional/memory", "regional/envoyrls", "regional/httpapi",
	"regional/httplimit", "regional/grpclimit",
}

// generated lists who may see the types generated from proto/: they stop at the
// adapters that speak or store them.
var generated = []string{
	"proto", "coordinator/fsm", "coordinator/rpc", "regional/uplink", "cmd/quoratectl", "sim",
}

// unlinked lists what a binary must not contain.
var unlinked = map[string][]string{
	"cmd/quorate-agent": {
		"github.com/hashicorp/raft", "go.etcd.io/bbolt", "github.com/boltdb/bolt", "testing", module + "sim",
		module + "regional/redisbucket/redistest",
	},
	// Without testing: hashicorp/raft links it.
	"cmd/quorate-coordinator": {
		"github.com/redis/go-redis", "github.com/alicebob/miniredis", module + "sim", module + "regional",
	},
	"cmd/quoratectl": {
		"github.com/hashicorp/raft", "go.etcd.io/bbolt", "github.com/redis/go-redis", "testing", module + "sim", module + "regional",
	},
}
