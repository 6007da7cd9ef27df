// Backups: a directory of the box as one archive in the box, and back.
#pragma once

#include "http/router.h"

route_fn inbox_backup_create, inbox_backup_restore;
