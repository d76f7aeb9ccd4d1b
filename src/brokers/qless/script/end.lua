-- No branch above has answered.
error('Unknown command ' .. command)
end
