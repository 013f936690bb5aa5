// Command image writes an OCI archive: one layer with a tree of files, and memtrace as what it runs. It needs neither
// Docker nor root. The same input makes the same bytes.
//
//	image -arch amd64 -version 0.1.0 -commit ID -tree DIRECTORY -o FILE
//
// SOURCE_DATE_EPOCH is the time that everything in it bears.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

type options struct {
	arch, version, commit, tree, out string
	made                             time.Time
}

func main() {
	var o options
	flag.StringVar(&o.arch, "arch", "amd64", "`GOARCH` of the binary")
	flag.StringVar(&o.version, "version", "", "memtrace's version")
	flag.StringVar(&o.commit, "commit", "", "the commit that it was built from")
	flag.StringVar(&o.tree, "tree", "", "`directory` that becomes the root")
	flag.StringVar(&o.out, "o", "", "the archive to write")
	flag.Parse()
	if err := o.write(); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func (o *options) write() error {
	if o.version == "" || o.tree == "" || o.out == "" {
		return errors.New("-version, -tree and -o are needed")
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH is needed, the seconds since 1970: %w", err)
	}
	o.made = time.Unix(epoch, 0).UTC()
	image, err := o.image()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(o.out), "image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// The name that `podman load` and `podman run oci-archive:FILE` give it.
	name := map[string]string{"org.opencontainers.image.ref.name": "localhost/memtrace:" + o.version}
	if err := path.AppendImage(image, layout.WithAnnotations(name)); err != nil {
		return err
	}
	archive, err := tree(dir, o.made)
	if err != nil {
		return err
	}
	return os.WriteFile(o.out, archive, 0o644)
}

func (o *options) image() (v1.Image, error) {
	files, err := tree(o.tree, o.made)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{
		Created: v1.Time{Time: o.made}, CreatedBy: "packaging/image",
	}})
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, o.config(image))
}

func (o *options) config(image v1.Image) *v1.ConfigFile {
	before, err := image.ConfigFile()
	if err != nil {
		before = &v1.ConfigFile{}
	}
	config := before.DeepCopy()
	config.Architecture, config.OS, config.Created = o.arch, "linux", v1.Time{Time: o.made}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/memtrace"},
		Env:        []string{"PATH=/usr/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "memtrace",
			"org.opencontainers.image.version":  o.version,
			"org.opencontainers.image.revision": o.commit,
			"org.opencontainers.image.licenses": "Apache-2.0 AND GPL-2.0-only",
			"org.opencontainers.image.source":   "https://github.com/memtrace/memtrace",
		},
	}
	return config
}

// tree is a directory as an uncompressed tar: names in order, all of root's, one time.
func tree(dir string, made time.Time) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		return add(w, dir, path, entry, made)
	})
	return buffer.Bytes(), errors.Join(err, w.Close())
}

func add(w *tar.Writer, dir, path string, entry fs.DirEntry, made time.Time) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	header := &tar.Header{Name: name, ModTime: made, Mode: 0o644, Typeflag: tar.TypeReg, Size: info.Size(), Format: tar.FormatUSTAR}
	switch {
	case entry.IsDir():
		header.Name, header.Typeflag, header.Mode, header.Size = name+"/", tar.TypeDir, 0o755, 0
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is neither a file nor a directory", path)
	case info.Mode()&0o100 != 0:
		header.Mode = 0o755
	}
	if err := w.WriteHeader(header); err != nil || entry.IsDir() {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
