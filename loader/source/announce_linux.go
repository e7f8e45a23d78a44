package source

import "golang.org/x/sys/unix"

// Announce asks the system to begin to bring a file of this machine into its cache, as far as
// the system reads ahead. It ignores errors, because reading the file will have them too.
func Announce(p string) {
	if Remote(p) {
		return
	}
	fd, err := unix.Open(local(p), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_ = unix.Fadvise(fd, 0, 0, unix.FADV_WILLNEED)
	_ = unix.Close(fd)
}
