// The template without an image: a skeleton root generated from this host, with the host's /usr
// beside it (docs/ISOLATION.md MNT-8).
#pragma once

#include "base/err.h"
#include "os/path.h"

#define HOST_STAMP_SIZE 64

// A word, fit for a file name, that changes when the skeleton must be made anew: with dpkg's status
// file (without dpkg: with /usr), and with each boot, since the skeleton is not synced.
fallible host_stamp(int host, const char *boot, char out[HOST_STAMP_SIZE]);

// Fills the empty directory `root` from the host whose root directory is `host`. NOT_OFFERED
// no_usrmerge on a host that keeps programs outside /usr.
fallible host_build(int host, int root, struct path_copied *sum);
