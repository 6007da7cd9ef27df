// The note of a snapshot: JSON that the warden keeps with it, and that only this file writes.
//	source      id of the sandbox
//	parent      the snapshot that the sandbox was made from; absent: none
//	template    the template at the beginning of the line
//	stopped     it did not run: its files were written to the end
//	built       a build has made it: its configuration is in the image's file
//	user, workdir, limits   defaults of sandboxes that are made from it
#pragma once

#include "manager/table.h"

// Describes the sandbox as it is now. Waits.
fallible snapshot_note_write(struct entry *entry, char out[ORDER_NOTE_MAX]);
// The template of the spec is resolved: if it is a snapshot, what the create did not give is taken
// from its note. Waits.
fallible snapshot_note_fill(struct manager *manager, struct spec *spec);
bool snapshot_note_is_built(const char *note);
