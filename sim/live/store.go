package live

import (
	"fmt"
	"os"

	"github.com/quorate/quorate/regional"
	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// store is a region's Redis.
type store struct {
	url    string
	server *redistest.Server // nil when embedded
}

// openStore starts the redis-server of a region, or leaves it to the region's
// only agent to embed one.
func openStore(kind Store, dir string) (store, error) {
	if kind == StoreAny {
		kind = StoreEmbedded
		if _, ok := redistest.Find(); ok {
			kind = StoreRedis
		}
	}
	if kind == StoreEmbedded {
		return store{url: regional.Embedded}, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return store{}, fmt.Errorf("make its directory: %w", err)
	}
	server, err := redistest.Start(redistest.Options{Dir: dir})
	if err != nil {
		return store{}, err
	}
	return store{url: server.URL(), server: server}, nil
}

func (s store) close() error {
	if s.server == nil {
		return nil
	}
	return s.server.Stop()
}
