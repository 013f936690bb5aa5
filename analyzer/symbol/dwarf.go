package symbol

// location is one function that DWARF names for an address.
type location struct {
	name string // linkage name where there is one
	file string
	line int
}

// dwarfReader reads the debug information of one module.
type dwarfReader struct{}

func (d *dwarfReader) lookup(img, debug *image, addr uint64) ([]location, error) {
	return nil, nil
}
