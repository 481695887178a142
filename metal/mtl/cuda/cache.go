package cuda

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// cache is a folder of machine code, one file a kernel: its SHA-256 and then the
// code. A file's name is the hash of all that the code depends on.
type cache struct {
	dir   string // "" for no cache
	salt  string // of every key
	major int    // compute capability
	minor int
}

func openCache(dir string, d *Driver, c *Compiler) (*cache, error) {
	k := &cache{dir: dir}
	k.major, k.minor = d.Capability()
	k.salt = fmt.Sprintf("driver %s\ncompiler %s\nsm_%d%d\n%s\n", d.Version(), c.Version(), k.major, k.minor, strings.Join(compileOptions, " "))
	if dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("cuda: cache of kernels: %w", err)
		}
	}
	return k, nil
}

// key is the name of a source's file.
func (k *cache) key(s *Source) string {
	h := sha256.Sum256([]byte(k.salt + s.Entry + "\n" + s.Text))
	return hex.EncodeToString(h[:]) + ".cubin"
}

// load gives what the cache has for a key; a file that is not whole counts as
// absent.
func (k *cache) load(key string) ([]byte, bool) {
	if k.dir == "" {
		return nil, false
	}
	b, err := os.ReadFile(filepath.Join(k.dir, key))
	if err != nil || len(b) <= sha256.Size {
		return nil, false
	}
	code := b[sha256.Size:]
	if sum := sha256.Sum256(code); string(sum[:]) != string(b[:sha256.Size]) {
		return nil, false
	}
	return code, true
}

// store writes beside and renames, so that readers see all of it or nothing.
func (k *cache) store(key string, code []byte) error {
	if k.dir == "" {
		return nil
	}
	f, err := os.CreateTemp(k.dir, "new-*")
	if err != nil {
		return err
	}
	sum := sha256.Sum256(code)
	_, err = f.Write(append(sum[:], code...))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(k.dir, key))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// compile gives the machine code of a source. Where the cache can't be written to,
// as on a full disk, the next start is slower and nothing else.
func (k *cache) compile(c *Compiler, s *Source) ([]byte, error) {
	key := k.key(s)
	if code, ok := k.load(key); ok {
		return code, nil
	}
	code, err := c.Compile(s, k.major, k.minor)
	if err != nil {
		return nil, err
	}
	_ = k.store(key, code)
	return code, nil
}
