package dwarf

// Forms of attribute values (DWARF 5, section 7.5.6); the last ones are GNU's.
const (
	formAddr          = 0x01
	formBlock2        = 0x03
	formBlock4        = 0x04
	formData2         = 0x05
	formData4         = 0x06
	formData8         = 0x07
	formString        = 0x08
	formBlock         = 0x09
	formBlock1        = 0x0a
	formData1         = 0x0b
	formFlag          = 0x0c
	formSdata         = 0x0d
	formStrp          = 0x0e
	formUdata         = 0x0f
	formRefAddr       = 0x10
	formRef1          = 0x11
	formRef2          = 0x12
	formRef4          = 0x13
	formRef8          = 0x14
	formRefUdata      = 0x15
	formIndirect      = 0x16
	formSecOffset     = 0x17
	formExprloc       = 0x18
	formFlagPresent   = 0x19
	formStrx          = 0x1a
	formAddrx         = 0x1b
	formRefSup4       = 0x1c
	formStrpSup       = 0x1d
	formData16        = 0x1e
	formLineStrp      = 0x1f
	formRefSig8       = 0x20
	formImplicitConst = 0x21
	formLoclistx      = 0x22
	formRnglistx      = 0x23
	formRefSup8       = 0x24
	formStrx1         = 0x25
	formStrx2         = 0x26
	formStrx3         = 0x27
	formStrx4         = 0x28
	formAddrx1        = 0x29
	formAddrx2        = 0x2a
	formAddrx3        = 0x2b
	formAddrx4        = 0x2c
	formGNUAddrIndex  = 0x1f01
	formGNUStrIndex   = 0x1f02
	formGNURefAlt     = 0x1f20
	formGNUStrpAlt    = 0x1f21
)

// value is an attribute's value as it stands: what u means, form tells. For
// formString it is the string's offset in the section. The zero value is an
// attribute that is not there.
type value struct {
	form uint16
	u    uint64
}

func (v value) present() bool { return v.form != 0 }

// encoding is what the size of some forms depends on.
type encoding struct {
	version  uint8
	addrSize uint8
	dwarf64  bool
}

// value reads one attribute value and moves behind it.
func (c *cursor) value(e encoding, form uint16, implicit int64) value {
	v := value{form: form}
	switch form {
	case formAddr:
		v.u = c.uint(e.addrSize)
	case formData1, formRef1, formFlag, formStrx1, formAddrx1:
		v.u = uint64(c.u8())
	case formData2, formRef2, formStrx2, formAddrx2:
		v.u = uint64(c.u16())
	case formStrx3, formAddrx3:
		v.u = c.uint(3)
	case formData4, formRef4, formStrx4, formAddrx4, formRefSup4:
		v.u = uint64(c.u32())
	case formData8, formRef8, formRefSig8, formRefSup8:
		v.u = c.u64()
	case formUdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIndex, formGNUStrIndex:
		v.u = c.uleb()
	case formSdata:
		v.u = uint64(c.sleb())
	case formStrp, formSecOffset, formLineStrp, formStrpSup, formGNURefAlt, formGNUStrpAlt:
		v.u = c.offset(e.dwarf64)
	case formRefAddr:
		v.u = c.refAddr(e)
	case formString:
		v.u = c.pos
		c.cstring()
	case formFlagPresent:
		v.u = 1
	case formImplicitConst:
		v.u = uint64(implicit)
	case formIndirect:
		return c.indirect(e)
	default:
		v.u = c.pos
		c.skipBlock(form)
	}
	return v
}

// refAddr reads a reference into any unit; DWARF 2 gave it an address's size.
func (c *cursor) refAddr(e encoding) uint64 {
	if e.version <= 2 {
		return c.uint(e.addrSize)
	}
	return c.offset(e.dwarf64)
}

// indirect reads a value whose form stands before it.
func (c *cursor) indirect(e encoding) value {
	form := c.uleb()
	if form == formIndirect || form == formImplicitConst || form > 0xffff {
		c.fail()
		return value{}
	}
	return c.value(e, uint16(form), 0)
}

// skipBlock moves behind a block; an unknown form can't be skipped and fails.
func (c *cursor) skipBlock(form uint16) {
	switch form {
	case formBlock1:
		c.skip(uint64(c.u8()))
	case formBlock2:
		c.skip(uint64(c.u16()))
	case formBlock4:
		c.skip(uint64(c.u32()))
	case formBlock, formExprloc:
		c.skip(c.uleb())
	case formData16:
		c.skip(16)
	default:
		c.fail()
	}
}
