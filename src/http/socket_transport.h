// The transport over a socket; the parts that are in files of their own.
#pragma once

#include "http/http.h"
#include "http/transport.h"

// peer.c
void socket_transport_be_patient(struct http *x);
fallible socket_transport_away(struct http *x, struct str probe);
void socket_transport_back(struct http *x);
bool socket_transport_is_gone(struct http *x, struct str probe);
