// Files in the sandbox, one operation a request: JSON, event streams, raw bodies, archives.
#pragma once

#include "http/router.h"

#define FILES_CONTENT_MAX 33554432 // largest file that is sent inside JSON
#define FILES_BODY_MAX 50331648	   // largest JSON body that carries a file

// files.c
route_fn toolbox_files_delete, toolbox_files_rename, toolbox_files_move, toolbox_files_mkdir,
	toolbox_files_exists, toolbox_files_stat, toolbox_files_chmod;
route_fn toolbox_files_read;					   // files_read.c
route_fn toolbox_files_write;					   // files_write.c
route_fn toolbox_files_list, toolbox_files_find;		   // files_list.c
route_fn toolbox_files_grep;					   // files_grep.c
route_fn toolbox_files_stream;					   // files_stream.c
route_fn toolbox_files_get, toolbox_files_put, toolbox_files_drop; // files_raw.c, files_put.c
route_fn toolbox_files_pack, toolbox_files_unpack;		   // files_tar.c
