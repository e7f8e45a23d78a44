//go:build linux

package script

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// QuietInput returns a terminal of like's size that has no input: up to 1024 reads get the end of
// the file. A script may ask the terminal for its size (stty size), which would fail on anything
// else. Closing master closes the terminal.
func QuietInput(like *os.File) (master, input *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	defer func() {
		if err != nil {
			master.Close()
		}
	}()
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	if size, serr := unix.IoctlGetWinsize(int(like.Fd()), unix.TIOCGWINSZ); serr == nil {
		_ = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, size)
	}
	mode, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, nil, err
	}
	mode.Lflag &^= unix.ECHO
	if err = unix.IoctlSetTermios(fd, unix.TCSETS, mode); err != nil {
		return nil, nil, err
	}
	const reads = 1024 // a terminal buffers 4096 unread bytes
	if _, err = unix.Write(fd, bytes.Repeat([]byte{mode.Cc[unix.VEOF]}, reads)); err != nil {
		return nil, nil, err
	}
	input, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	return master, input, err
}
