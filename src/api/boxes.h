// Sandboxes: create, list, get, get-or-create, delete.
#pragma once

#include "http/router.h"

route_fn api_boxes_create, api_boxes_list, api_boxes_get, api_boxes_ensure, api_boxes_delete,
	api_boxes_change, api_boxes_pause, api_boxes_resume, api_boxes_stop, api_boxes_start;
