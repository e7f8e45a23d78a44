package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// writable returns the first of the folders in which a file can be made. It makes missing folders
// and skips empty names.
func writable(dirs ...string) (string, error) {
	return first(dirs, func(dir string) (string, error) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		f, err := os.CreateTemp(dir, ".gpu-check-")
		if err != nil {
			return "", err
		}
		return dir, errors.Join(f.Close(), os.Remove(f.Name()))
	})
}

// scratch makes a folder in the first of those given from which programs can run. The bundle's
// programs are unpacked into it.
func scratch(dirs ...string) (string, error) {
	return first(dirs, func(dir string) (string, error) {
		tmp, err := os.MkdirTemp(dir, "gpu-check-")
		if err != nil {
			return "", err
		}
		script := filepath.Join(tmp, "may-run")
		if err = os.WriteFile(script, []byte("#!/bin/sh\n"), 0o700); err == nil {
			err = exec.Command(script).Run()
		}
		if err != nil {
			return "", errors.Join(err, os.RemoveAll(tmp))
		}
		return tmp, os.Remove(script)
	})
}

// first returns the first success, or all failures.
func first(dirs []string, try func(string) (string, error)) (string, error) {
	var errs []error
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		got, err := try(dir)
		if err == nil {
			return got, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}
