// Backups: a directory of the box as one archive in the box, and back.
#pragma once

#include "http/router.h"

route_fn toolbox_backup_create, toolbox_backup_restore;
