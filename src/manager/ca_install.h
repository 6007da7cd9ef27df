// Installs the CA that signs a box's inspected host names in the box's trust store.
#pragma once

#include "manager/table.h"

#define CA_INSTALL_PATH "/usr/local/share/ca-certificates/cove.crt"
#define CA_INSTALL_BUNDLE                                                                          \
	"/etc/ssl/certs/ca-certificates.crt" // the certificates that the box trusted, and this CA

// Sets the variables by which programs with certificates of their own find the box's bundle.
struct env_map;
void ca_install_set_env(struct env_map *env);

// Installs the CA if the box's policy inspects a host and it is not installed yet. Waits; the
// caller holds the entry. A write error is logged: programs in the box then reject inspected
// connections.
void ca_install_put(struct entry *entry);
