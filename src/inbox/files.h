// Files in the sandbox, one verb a request: JSON, streams, raw bodies, archives.
#pragma once

#include "http/router.h"

#define FILES_CONTENT_MAX 33554432 // of a file that travels inside of JSON
#define FILES_BODY_MAX 50331648	   // of the JSON that brings one

// files.c
route_fn inbox_files_delete, inbox_files_rename, inbox_files_move, inbox_files_mkdir,
	inbox_files_exists, inbox_files_stat, inbox_files_chmod;
route_fn inbox_files_read;				     // files_read.c
route_fn inbox_files_write;				     // files_write.c
route_fn inbox_files_list, inbox_files_find;		     // files_list.c
route_fn inbox_files_grep;				     // files_grep.c
route_fn inbox_files_stream;				     // files_stream.c
route_fn inbox_files_get, inbox_files_put, inbox_files_drop; // files_raw.c, files_put.c
route_fn inbox_files_pack, inbox_files_unpack;		     // files_tar.c
