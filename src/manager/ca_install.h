// The authority that signs the inspected names of a box, in the box's own trust store, so that its
// programs believe it as they believe the others there.
#pragma once

#include "manager/table.h"

#define CA_INSTALL_PATH "/usr/local/share/ca-certificates/cove.crt"
#define CA_INSTALL_BUNDLE "/etc/ssl/certs/ca-certificates.crt" // what the box trusted, and that one

// The variables by which programs that have certificates of their own find those of the box.
struct env_map;
void ca_install_set_env(struct env_map *env);

// Where its policy inspects something, and where it is not there already. Waits; the caller holds
// the entry. What cannot be written is told by the log: then its programs refuse what is inspected,
// and nothing else.
void ca_install_put(struct entry *entry);
