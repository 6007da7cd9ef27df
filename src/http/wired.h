// The way of an exchange on a connection, with its parts that have files of their own.
#pragma once

#include "http/http.h"
#include "http/way.h"

// http/file
fallible wired_send_file(struct http *x, int fd, uint64_t offset, uint64_t len);
fallible wired_recv_file(struct http *x, int fd, uint64_t max, uint64_t *out_len);
// http/peer
void wired_be_patient(struct http *x);
fallible wired_away(struct http *x, struct str probe);
void wired_back(struct http *x);
bool wired_is_gone(struct http *x, struct str probe);
