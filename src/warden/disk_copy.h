// A child that copies a disk: what to copy is in warden/disk_driver.h, and the caller reaps it. Its
// report is that of warden/jail.h.
#pragma once

#include "warden/disk_driver.h"

// Forks. *out_report is read with jail_report_read(). The copy's descriptors are closed.
void disk_copy_done(struct disk_copy *copy); // closes its descriptors
fallible disk_copy_start(struct disk_copy *copy, int *out_pid, int *out_report);
