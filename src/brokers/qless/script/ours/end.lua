-- No command of taskvisor has this name.
end
